"""Markdown to its words: front matter, marks of lines, links, references, emphasis, escapes.

The rules see no difference between prose and code, because a second run would not see it either:
the marks of code blocks are gone by then. So each takes only what prose of the kind writes and code
does not: "a[i](x)", "__init__", "*p = *q", "#include", "#1" and "a * b * c" stay. Inline code keeps
its backticks: they protect what stands in them.
"""

import re

from pipeline.emphasis import remove_emphasis
from pipeline.escapes import remove_escapes
from pipeline.links import remove_links, remove_references
from pipeline.markdown_dialects import remove_dialects, remove_rst

_SHORT = 400  # characters
_INLINE_MARK = re.compile(r"[*_\[\\`{]|:::|%%|#@|-\*-|<xref:")
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n((?:(?!\1)[^\n]*+\n){1,500}+)\1[ \t]*(?:\n|\Z)")
_FRONT_LINE = re.compile(
    r"[\w.\-/]{1,60}(?: [\w.\-/]{1,30})?[ \t]*[:=](?:\s|$)|[ \t]|-(?:\s|$)|[#\]\[}{]"
)
_TITLE = re.compile(
    r"^(?:title|제목)\s*[:=]\s*(['\"]?)(\S[^\n]*?)\1[ \t]*$", re.MULTILINE | re.IGNORECASE
)
# data, not language; a few lines are an example of the text around them
_JSON_BLOCK = re.compile(
    r"^[ \t]*+```+jsonc?\b[^\n`]*\n(?:(?![ \t]*+```)[^\n]*\n){8,}+[ \t]*+```+", re.M
)
_TITLE_END = re.compile(
    r"\s*[|–-]\s*(?:Microsoft\s(?:Docs|Learn|문서)|Документ(?:ация|ы) Майкрософт|MDN)\b[^\n]*$",
    re.IGNORECASE,
)


def remove_markdown(text: str) -> str:
    """One round over all marks that the text holds."""
    # in a long text one look costs as much as all of them
    if len(text) < _SHORT and not (
        text[:1] in _MARKS or _INLINE_MARK.search(text) or _MARKED.search(text)
    ):
        return text
    if text.startswith(("---", "+++")):
        text = _FRONT_MATTER.sub(_after_front_matter, text, count=1)
    if "`" in text and "```json" in text:
        text = _JSON_BLOCK.sub("", text)
    text = remove_dialects(text)
    if "|" in text and any(edge in text for edge in ("-|", "- |", ":|", ": |")):
        text = _OPEN_TABLE.sub(_cells, text)
    text = _remove_line_marks(text)
    text = remove_links(text)
    text = remove_references(text)
    text = remove_emphasis(text)
    text = remove_rst(text)
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
    r"(?:>[ \t]*(?=\[!|>)|>[ \t]+(?:(?=-[ \t]+\S)|(?![<_\-=.>]))|>(?=[A-Za-z\u00c0-\u024f]{2}))++"
)
_QUOTED_WORDS = re.compile(r">[ \t]?[^\W\d_]")
_TAG_AT_END = re.compile(r"<[/A-Za-z][^<>]*\Z")
_LINE_MARK = re.compile(
    r"(?P<fence>```+[^`]*$)"
    # a rule, or the underline of a heading; behind # in notebooks that are Python files
    # and the borders of tables in reStructuredText
    r"|(?P<rule>(?:#+[ \t]*)?(?:([-=*_#~^])\3{2,}|[-*_](?:[ \t]+[-*_]){2,}|\+[-=+]{3,}\+"
    r"|={2,}(?:[ \t]+={2,})+)[ \t]*$)"
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
    r"((?:\n[^|\n]*+\|[^\n]*+)*+)",
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
    if "<" in text and "\n>" in text:  # ">" may close a tag of many lines, which is no quotation
        return "\n".join(
            [
                line
                if line[:1] not in _MARKS or (line[0] == ">" and _closes_tag(lines, at))
                else _without_marks(line)
                for at, line in enumerate(lines)
            ]
        )
    return "\n".join(
        [_without_marks(line) if line and line[0] in _MARKS else line for line in lines]
    )


def _cells(table: re.Match[str]) -> str:
    rows = (table[1] + table[2].removeprefix("\n")).split("\n")
    return "\n".join([_CELL_EDGE.sub(" ", row).strip() for row in rows])


def _closes_tag(lines: list[str], at: int) -> bool:
    return bool(_TAG_AT_END.search("\n".join(lines[max(0, at - 6) : at])))


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
