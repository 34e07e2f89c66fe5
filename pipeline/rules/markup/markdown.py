"""Markdown to its words: front matter, marks of lines, links, references, emphasis, escapes.

The rules see no difference between prose and code, because a second run would not see it either:
the marks of code blocks are gone by then. So each takes only what prose of the kind writes and code
does not: "a[i](x)", "__init__", "*p = *q", "#include", "#1" and "a * b * c" stay. Inline code keeps
its backticks: they protect what stands in them.
"""

import re
from collections.abc import Callable

from pipeline.rules.data import read_table
from pipeline.rules.markup.html import TAG_NAMES

# What sites add to Markdown: macros, directives, includes, attributes.

_TABLE = read_table("markdown")
_INLINE_MACRO, _BLOCK_MACRO = (
    re.compile("|".join(_TABLE[name]), re.IGNORECASE) for name in ("inline_macros", "block_macros")
)
_ARGUMENT = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_OVERLOADS = re.compile(r"%2[Aa]|%60(?:%60)?\d+")  # %2A: all of them; %601: one type parameter
_ALT = re.compile(r"\b(?:alt-text|text)=\"([^\"\n]*)\"")


def _shown(macro: re.Match[str]) -> str:
    name, arguments = macro[1], macro[2]
    if arguments is None:
        return "" if _BLOCK_MACRO.fullmatch(name) else macro[0]
    if not _INLINE_MACRO.fullmatch(name):
        return ""
    words = [first or second for first, second in _ARGUMENT.findall(arguments)]
    shown = words[1] if len(words) > 1 and words[1].strip() else words[0] if words else arguments
    return f"RFC {shown}" if name.lower() == "rfc" else shown


_WORDS: dict[str, str | Callable[[re.Match[str]], str]] = {
    "": "",
    "shown": _shown,
    "name_of": lambda xref: _OVERLOADS.sub("", xref[1]),
    "alternative": lambda block: alt[1] if (alt := _ALT.search(block[0])) else "",
}
_DIALECTS = [
    (tuple(row["marks"]), re.compile(row["pattern"]), _WORDS[row.get("words", "")])
    for row in _TABLE["dialects"]
]


# Marks of Markdown's emphasis, where they cannot be operators, footnotes or faces.

# An opening mark has no letter or digit before it and a closing mark no ASCII one after it (a
# particle may follow: "**굵게**는"); both touch what they mark, and that holds a letter. Patterns
# begin with the mark itself, for which a search leaps.
_OPEN = r"(?=[\w(（【『\[\"'`“‘「《«„¿¡<./#$%&~\-+]|:[a-z])"
_LETTER = r"[A-Za-z가-힣\u0080-\u10ff\u1e00-\u1fff\u3041-\u30fe\u4e00-\u9fff]"
# vowel signs, points and joiners, with which words of Arabic and Indic scripts may end: \w has none
_SIGNS = (
    r"\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0903\u093a-\u0957"
    r"\u0962\u0963\u0981-\u0e4e\u200c\u200d"
)
_CLOSE = rf"(?<=[\w{_SIGNS})\]\"'`”’」』》】»>.!?,:;%/+#…।؟،؛。！？、，：；）])"
# Kana and Han have no spaces between words; a single star between short ones may multiply.
_UNSPACED = r"[\u3041-\u30fe\u4e00-\u9fff]"
# What a mark may hold: "Item *p = (Item*)q; /* ... */" is C. Where Hangul follows, a few words:
# "**시장 ... 김**씨" are names that a site has hidden.
_STARS = [
    re.compile(
        rf"{mark}(?:(?<![\w{_SIGNS}*\\/`]{mark})|(?<=[\s(]_{mark})"
        rf"|(?<={_UNSPACED}{mark})(?=[^*\n]{{{length}}})){_OPEN}"
        rf"(?=[^*\n]*{held})({inside}{{1,80}}?{_CLOSE}(?={mark}[가-힣])"
        rf"|{inside}{{1,400}}?{_CLOSE}(?={mark}[^가-힣]|{mark}\Z)){mark}(?:(?<=[：。，、）」』】]{mark})(?!\*)|(?![A-Za-z0-9_*]))"
    )
    for mark, held, length, inside in (
        (r"\*\*\*", r"\w", 1, r"[^*\n]"),
        (r"\*\*", r"\w", 1, r"[^*\n]"),
        (r"\*", _LETTER, 4, r"[^*\n=;{}]"),
    )
]
# names that a site has hidden: "*** 대표", "****병원"
_HIDDEN = re.compile(r"\*{4}|\*{3}(?<![^\s(]\*{3})(?![^\s,.)])")
# "__init__" and "_private" are names, "_이름_" is chat, "_MACRO_" is C: only words with a space
# between them, or one word of letters that names and chat do not have, or as prose writes it
_UNDERSCORES = re.compile(
    rf"_(?<![\w{_SIGNS}\\`*]_)(?=_?[\"'“‘«¿¡(]{{0,2}}[^\W_])(_?)"
    rf"([\"'“‘«¿¡(]{{0,2}}[^\W_](?>(?:[^\W_]|[{_SIGNS}])*)"
    rf"(?:(?=[ .,:;!?'\"’”…)\-])[\w{_SIGNS} .,:;!?'\"“”‘’«»…()/%&`\-–—،؛؟।]{{0,300}}?"
    rf"(?:[^\W_]|[{_SIGNS}.,;!?:)\"'”’»…`।]))?)_\1(?![A-Za-z0-9_`])"
)
_CODE_TOO = re.compile(r"[,:;!?\"()/%&]")
_CHAT = re.compile("[가-힣]")
_ENDS = ".,;:!?\"'"  # a sentence may begin or end with them, in code they stand between names
_PROSE = re.compile(r"[A-Za-z]|(?=\S*[a-z])[A-Za-z]+(?:['’.\-][A-Za-z]+)*[.,;:!?]{0,2}")


def remove_emphasis(text: str) -> str:
    """`**words**`, `*words*` and `_two words_` to the words."""
    if "*" in text:
        if "***" in text and _HIDDEN.search(text):
            lines = text.split("\n")
            text = "\n".join([x if _HIDDEN.search(x) else _without_stars(x) for x in lines])
        else:
            text = _without_stars(text)
    return _UNDERSCORES.sub(_spaced, text) if "_" in text else text


def _without_stars(text: str) -> str:
    for marks in _STARS:
        text = marks.sub(r"\1", text)
    return text


def _spaced(marked: re.Match[str]) -> str:
    words = marked[2]
    num_spaces = words.count(" ")
    if not num_spaces:
        is_word = _PROSE.fullmatch(words) or not (words.isascii() or _CHAT.search(words))
        return words if is_word and not marked[1] else marked[0]  # "__init__"
    if " _" in words or "_ " in words:  # "_private and _DEBUG_"
        return marked[0]
    # "f(_first, last_)"
    return words if num_spaces > 2 or not _CODE_TOO.search(words.strip(_ENDS)) else marked[0]


# Backslashes with which Markdown escapes its marks, where they cannot be code, paths or LaTeX.

# "1\." of a number, "foo\_bar", "\<map.h>", "\#5", "menu \> entry", "\<Menu name>", "a \<= b",
# and a backslash that only breaks the line. "C:\>" is a prompt and "\<b>" speaks of a tag.
_ESCAPE = re.compile(
    r"\\(?:(?<=^\d\\)|(?<=^\d\d\\)|(?<=^[가-하A-Za-z]\\))(?=[.)](?: |\d|$))|\\(?<=\d\\)(?=\.\s)"
    r"|\\(?<=[\w가-힣]\\)(?=_\w)|\\(?<=[\w*.)`가-힣]\\)$|\\(?=<[\w/.]{1,40}\.h>)"
    r"|\\(?<=[^\n\\]\\)(?=#)|\\(?<=[\s*\x80-\U0010ffff]\\)(?=>)"
    r"|\\(?<![\w\\:%$)\]}/.`]\\)(?=<(?:[= ]"
    rf"|(?!(?i:{'|'.join(TAG_NAMES)})\s*\\?>)[^\s<>`\\/=][^<>\\\n=]{{0,60}}\\?>))",
    re.MULTILINE,
)
# "List<T\>": the closing bracket alone is escaped
_ANGLE = re.compile(r"<([^<>\\\n`]{1,60})\\>")
# "\[선택\]" and "[OK]\(확인\)": in LaTeX and regular expressions there are other letters
_SQUARE = re.compile(r"\\\[(?=[^\[\]\\\n]*[^\x00-\x7f])([^\[\]\\\n]{1,80})\\\]")
_ROUND = re.compile(r"\]\\\((?=[^()\\\n]*[^\x00-\x7f])([^()\\\n]{1,120})\\\)")


def remove_escapes(text: str) -> str:
    """The marks without their backslash."""
    text = _ESCAPE.sub("", text)
    if "\\>" in text:
        text = _ANGLE.sub(_without_escape, text)
    if "\\[" in text:
        text = _SQUARE.sub(r"[\1]", text)
    return _ROUND.sub(r"] (\1)", text) if "]\\(" in text else text


def _without_escape(angle: re.Match[str]) -> str:
    return angle[0] if angle[1].strip("/ ").lower() in TAG_NAMES else f"<{angle[1]}>"


# Links, images, reference definitions and footnotes of Markdown to their words.

# text of a link: at most one pair of brackets in it
_LINK = re.compile(
    r"(?:!\[|\[)((?>(?:[^\[\]]|\[[^\[\]\n]{0,100}\]){0,400}))\]"
    r"\([ \t]*(<[^<>\n]*>|[^\s()<>]*+(?>(?:\([^\s()]*+\)[^\s()<>]*+)*))"
    r"([ \t\n]+(?:\"[^\"]{0,500}\"|'[^']{0,500}'))?[ \t]*\)"
)
# as _LINK, but long: of a picture told to the blind, or with quotes in the quoted title
_PICTURE = re.compile(
    r"!\[([^\[\]]{0,2000}+)\]\([ \t]*[^\s()<>]++(?<=[.](?:png|gif|jpg|svg))"
    r"(?:[ \t]+\"[^\n]{0,400}?\")?\)"
)
_DESTINATION = re.compile(r"[./#:]|^[<?]|^$")
_FILE_NAME = re.compile(r"[A-Za-z0-9]+[_\-][A-Za-z0-9_\-]+")  # of a file beside, without its ending
_CALL = re.compile(r"[A-Za-z0-9_)\]]")
_MAX_LAYERS = 8
_PATH = ("../", "./", "/", "#", "http")


def remove_links(text: str) -> str:
    """Links and images to their words; "a[i](x)" is a call."""
    for _ in range(_MAX_LAYERS):  # an image may stand in a link; the next round takes deeper ones
        if "[" not in text or "](" not in text or (changed := _LINK.sub(_words, text)) == text:
            break
        text = changed
    if "![" in text:
        text = _PICTURE.sub(r"\1", text)
    return text


def _words(link: re.Match[str]) -> str:
    label, start = link[1], link.start()
    if link[0][0] == "!" or link[3]:
        return label
    if not _DESTINATION.search(link[2]) or not (label or link[2]):
        is_file = not label.isascii() and _FILE_NAME.fullmatch(link[2])
        return label if is_file else link[0]
    before = link.string[start - 1] if start else ""
    is_word = label.isascii() and " " not in label
    if _CALL.match(before) and is_word and not link[2].startswith(_PATH):
        return link[0]  # f[0](x.y)
    return label


_DEFINITION = re.compile(
    r"^[ \t]*+\[([^\^\[\]\n][^\[\]\n]{0,200})\]:[ \t]*+(?:<[^<>\n]*>|[^\s<>]*[./#][^\s<>]*)"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*$\n?",
    re.MULTILINE,
)
_FOOTNOTE = re.compile(r"^[ \t]*+\[\^([\w\-]{1,40})\]:[ \t]*", re.MULTILINE)
_FOOTNOTE_MARK = re.compile(r"\[\^([\w\-]{1,40})\]")
_BY_REFERENCE = re.compile(r"(?:!\[|\[)([^\[\]\n]{1,300}+)\](?:\[([^\[\]\n]{0,200}+)\])?")


def remove_references(text: str) -> str:
    """Definitions, and the brackets of what they define: "a[i][j]" defines nothing and stays."""
    if "[" not in text or "]:" not in text:
        return text
    names = {name.lower() for name in _DEFINITION.findall(text)}
    if names:
        text = _DEFINITION.sub("", text)

        def words(link: re.Match[str]) -> str:
            return link[1] if (link[2] or link[1]).lower() in names else link[0]

        text = _BY_REFERENCE.sub(words, text)
    notes = set(_FOOTNOTE.findall(text))
    if notes:
        text = _FOOTNOTE.sub("", text)
        text = _FOOTNOTE_MARK.sub(lambda mark: "" if mark[1] in notes else mark[0], text)
    return text


_FRONT_MATTER = re.compile(
    r"\A(---|\+\+\+)[ \t]*\n((?>(?:(?!\1)[^\n]*+\n){1,500}))\1[ \t]*(?:\n|\Z)"
)
_FRONT_LINE = re.compile(
    r"[\w.\-/]{1,60}(?: [\w.\-/]{1,30})?[ \t]*[:=](?:\s|$)|[ \t]|-(?:\s|$)|[#\]\[}{]"
)
_TITLE = re.compile(
    r"^(?:title|제목)\s*[:=]\s*(['\"]?)(\S[^\n]*?)\1[ \t]*$", re.MULTILINE | re.IGNORECASE
)
# data, not language; a few lines are an example of the text around them
_JSON_BLOCK = re.compile(
    r"^[ \t]*+```+jsonc?\b[^\n`]*\n(?>(?:(?![ \t]*+```)[^\n]*\n){8,})[ \t]*+```+", re.M
)
_TITLE_END = re.compile(
    r"\s*[|–-]\s*(?:Microsoft\s(?:Docs|Learn|문서)|Документ(?:ация|ы) Майкрософт|MDN)\b[^\n]*$",
    re.IGNORECASE,
)


def remove_markdown(text: str) -> str:
    """One round over all marks that the text holds."""
    if text.startswith(("---", "+++")):
        text = _FRONT_MATTER.sub(_after_front_matter, text, count=1)
    if "`" in text and "```json" in text:
        text = _JSON_BLOCK.sub("", text)
    for marks, pattern, words in _DIALECTS:  # macros become what they show; the rest goes
        if any(mark in text for mark in marks):
            text = pattern.sub(words, text)
    if "|" in text and any(edge in text for edge in ("-|", "- |", ":|", ": |")):
        text = _OPEN_TABLE.sub(_cells, text)
    text = _remove_line_marks(text)
    text = remove_links(text)
    text = remove_references(text)
    text = remove_emphasis(text)
    return remove_escapes(text) if "\\" in text else text


def _after_front_matter(block: re.Match[str]) -> str:
    """The title stays where the text does not repeat it: often it is the only one."""
    lines = [line for line in block[2].split("\n") if line]
    # squeezed white space has taken the indent of lines that go on: half must look the part
    if not lines or not _FRONT_LINE.match(lines[0]):
        return block[0]
    if 2 * sum(bool(_FRONT_LINE.match(line)) for line in lines) < len(lines):
        return block[0]
    title = _TITLE.search(block[2])
    if title is None:
        return ""
    words = _TITLE_END.sub("", title[2])
    beginning = block.string[block.end() : block.end() + 500]
    is_repeated = _folded(words) in _folded(beginning)
    return "" if is_repeated or words[:1] in "|>{[&" else words + "\n\n"


def _folded(words: str) -> str:
    """Without case and spaces: translators write a title "A :: b" and its heading "A::B"."""
    return "".join(words.split()).casefold()


_MARKS = frozenset("`>#|-=*_:~^+.[ \t")
_QUOTE = re.compile(
    r"(?>(?:>[ \t]*(?=\[!|>)|>[ \t]+(?:(?=-[ \t]+\S)|(?![<_\-=.>]))"
    r"|>(?=[A-Za-z\u00c0-\u024f]{2}))+)"
)
_QUOTED_WORDS = re.compile(r">[ \t]?[^\W\d_]")
_TAG_AT_END = re.compile(r"<[/A-Za-z][^<>]*\Z")
_LINE_MARK = re.compile(
    r"(?P<fence>```+[^`]*$)"
    # a rule, or the underline of a heading; behind # in notebooks that are Python files
    r"|(?P<rule>(?:#+[ \t]*)?(?:([-=*_#~^])\3{2,}|[-*_](?:[ \t]+[-*_]){2,})[ \t]*$)"
    r"|(?P<columns>(?=[^|]*\|)(?=[^-]*-)[-|: \t]+$)"
    # between kana or Han and the mark the space may be left out
    r"|#{1,6}(?:(?:[ \t]+|(?<=##)(?=[ぁ-ヺ一-鿿]))(?P<heading>[^\s#].*?)(?:[ \t]+#+)?|)[ \t]*$"
    r"|(?P<empty_row>\|[| \t]*\|[ \t]*$)"
    r"|\|(?:(?!\|)|(?=\|+[^|](?:.*[^|])?\|[ \t]*$))(?P<row>.*)\|[ \t]*$"
    r"|(?:::[ \t]*$|:[ \t]+(?P<definition>\w\w.*)|-[ \t]+:[ \t]+(?P<described>\S.*))"
    # a cell of a table that is a list of lists (German statutes): empty, or in the list of its row
    r"|\*(?:[ \t]*(?:\*[ \t]*)?$|[ \t]+(?P<item>\*[ \t]+\S.*))"
)
_CELL_EDGE = re.compile(r"[ \t]*(?<!\\)\|[ \t]*")
# a table whose rows have no | at their beginning: told by the line below its head
_OPEN_TABLE = re.compile(
    r"^([^|\n]+\|[^\n]*\n)[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*"
    r"((?>(?:\n[^|\n]*+\|[^\n]*+)*))",
    re.MULTILINE,
)


def _remove_line_marks(text: str) -> str:
    if text[:1] not in _MARKS and not _MARKED.search(text):
        return text
    lines = text.split("\n")
    if ">" in lines:  # blank lines of a quotation; by itself it may close a tag of many lines
        lines = [
            "" if line == ">" and _is_quoted(lines, at) else line for at, line in enumerate(lines)
        ]
    has_tags = "<" in text and "\n>" in text
    left = []
    for at, line in enumerate(lines):
        if line and line[0] in _MARKS:
            # ">" may close a tag of many lines, which is no quotation
            before = "\n".join(lines[max(0, at - 6) : at]) if has_tags and line[0] == ">" else ""
            line = line if before and _TAG_AT_END.search(before) else _without_marks(line)
        left.append(line)
    return "\n".join(left)


def _cells(table: re.Match[str]) -> str:
    rows = (table[1] + table[2].removeprefix("\n")).split("\n")
    return "\n".join([_CELL_EDGE.sub(" ", row).strip() for row in rows])


def _is_quoted(lines: list[str], at: int) -> bool:
    around = (lines[at - 1] if at else "", lines[at + 1] if at + 1 < len(lines) else "")
    return around[0].startswith("> ") or bool(_QUOTED_WORDS.match(around[1]))


_MARKED = re.compile(r"\n[ \t]*+[`>#|\-=*_:~^+.\[]")


def _without_marks(line: str) -> str:
    line = line.lstrip(" \t")
    if line.startswith(">"):
        line = _QUOTE.sub("", line, count=1)
    mark = _LINE_MARK.match(line)
    if mark is None:
        return line
    if words := mark["heading"] or mark["definition"] or mark["described"] or mark["item"]:
        return words
    return _CELL_EDGE.sub(" ", mark["row"]).strip() if mark["row"] else ""
