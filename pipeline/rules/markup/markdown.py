"""Markdown to its words: front matter, marks of lines, links, references, emphasis, escapes.

The rules see no difference between prose and code, because a second run would not see it either:
the marks of code blocks are gone by then. So each takes only what prose of the kind writes and code
does not: "a[i](x)", "__init__", "*p = *q", "#include", "#1" and "a * b * c" stay. Inline code keeps
its backticks: they protect what stands in them.
"""

import re

from pipeline.rules.data import compile_all, fill, read_table
from pipeline.rules.markup.html import TAG_NAMES

# What sites add to Markdown: macros, directives, includes, attributes.

_TABLE = read_table("markdown")
_PARTS = _TABLE["parts"] | {"tags": "|".join(TAG_NAMES)}
_RE = compile_all(_TABLE["patterns"], _PARTS)
_STARS = {
    row["mark"].replace("\\", ""): re.compile(
        fill("".join(_TABLE["emphasis"]["pattern"]), _PARTS | row)
    )
    for row in _TABLE["emphasis"]["marks"]
}
_DIALECTS = [
    (tuple(row["marks"]), re.compile(row["pattern"]), row.get("words", ""))
    for row in _TABLE["dialects"]
]
_DIALECT_MARK = re.compile("|".join(re.escape(mark) for marks, *_ in _DIALECTS for mark in marks))


# Marks of Markdown's emphasis, where they cannot be operators, footnotes or faces.

_ENDS = ".,;:!?\"'"  # a sentence may begin or end with them, in code they stand between names


def remove_emphasis(text: str) -> str:
    """`**words**`, `*words*` and `_two words_` to the words."""
    if "*" in text:
        if "***" in text and _RE["hidden"].search(text):
            lines = text.split("\n")
            text = "\n".join([x if _RE["hidden"].search(x) else _without_stars(x) for x in lines])
        else:
            text = _without_stars(text)
    return _RE["underscores"].sub(_spaced, text) if "_" in text else text


def _without_stars(text: str) -> str:
    for mark, pattern in _STARS.items():
        text = pattern.sub(r"\1", text) if mark in text else text
    return text


def _spaced(marked: re.Match[str]) -> str:
    words = marked[2]
    num_spaces = words.count(" ")
    if not num_spaces:
        is_word = _RE["prose"].fullmatch(words) or not (
            words.isascii() or _RE["chat"].search(words)
        )
        return words if is_word and not marked[1] else marked[0]  # "__init__"
    if " _" in words or "_ " in words:  # "_private and _DEBUG_"
        return marked[0]
    # "f(_first, last_)"
    return words if num_spaces > 2 or not _RE["code_too"].search(words.strip(_ENDS)) else marked[0]


# Backslashes with which Markdown escapes its marks, where they cannot be code, paths or LaTeX.


def remove_escapes(text: str) -> str:
    """The marks without their backslash."""
    text = _RE["escape"].sub("", text)
    if "\\>" in text:
        text = _RE["angle"].sub(_without_escape, text)
    if "\\[" in text:
        text = _RE["square"].sub(r"[\1]", text)
    return _RE["round"].sub(r"] (\1)", text) if "]\\(" in text else text


def _without_escape(angle: re.Match[str]) -> str:
    return angle[0] if angle[1].strip("/ ").lower() in TAG_NAMES else f"<{angle[1]}>"


# Links, images, reference definitions and footnotes of Markdown to their words.

_MAX_LAYERS = 8
_PATH = ("../", "./", "/", "#", "http")


def remove_links(text: str) -> str:
    """Links and images to their words; "a[i](x)" is a call."""
    for _ in range(_MAX_LAYERS):  # an image may stand in a link; the next round takes deeper ones
        if (
            "[" not in text
            or "](" not in text
            or (changed := _RE["link"].sub(_words, text)) == text
        ):
            break
        text = changed
    if "![" in text:
        text = _RE["picture"].sub(r"\1", text)
    return text


def _words(link: re.Match[str]) -> str:
    label, start = link[1], link.start()
    if link[0][0] == "!" or link[3]:
        return label
    if not _RE["destination"].search(link[2]) or not (label or link[2]):
        is_file = not label.isascii() and _RE["file_name"].fullmatch(link[2])
        return label if is_file else link[0]
    before = link.string[start - 1] if start else ""
    is_word = label.isascii() and " " not in label
    if _RE["call"].match(before) and is_word and not link[2].startswith(_PATH):
        return link[0]  # f[0](x.y)
    return label


def remove_references(text: str) -> str:
    """Definitions, and the brackets of what they define: "a[i][j]" defines nothing and stays."""
    if "[" not in text or "]:" not in text:
        return text
    names = {name.lower() for name in _RE["definition"].findall(text)}
    if names:
        text = _RE["definition"].sub("", text)

        def words(link: re.Match[str]) -> str:
            return link[1] if (link[2] or link[1]).lower() in names else link[0]

        text = _RE["by_reference"].sub(words, text)
    notes = set(_RE["footnote"].findall(text))
    if notes:
        text = _RE["footnote"].sub("", text)
        text = _RE["footnote_mark"].sub(lambda mark: "" if mark[1] in notes else mark[0], text)
    return text


def remove_markdown(text: str) -> str:
    """One round over all marks that the text holds."""
    if text.startswith(("---", "+++")):
        text = _RE["front_matter"].sub(_after_front_matter, text, count=1)
    if "`" in text and "```json" in text:
        text = _RE["json_block"].sub("", text)
    if _DIALECT_MARK.search(text):
        for marks, pattern, words in _DIALECTS:  # macros become what they show; the rest goes
            if any(mark in text for mark in marks):
                text = pattern.sub(words, text)
    if "|" in text and any(edge in text for edge in ("-|", "- |", ":|", ": |")):
        text = _RE["open_table"].sub(_cells, text)
    text = _remove_line_marks(text)
    text = remove_links(text)
    text = remove_references(text)
    text = remove_emphasis(text)
    return remove_escapes(text) if "\\" in text else text


def _after_front_matter(block: re.Match[str]) -> str:
    """The title stays where the text does not repeat it: often it is the only one."""
    lines = [line for line in block[2].split("\n") if line]
    # squeezed white space has taken the indent of lines that go on: half must look the part
    if not lines or not _RE["front_line"].match(lines[0]):
        return block[0]
    if 2 * sum(bool(_RE["front_line"].match(line)) for line in lines) < len(lines):
        return block[0]
    title = _RE["title"].search(block[2])
    if title is None:
        return ""
    words = _RE["title_end"].sub("", title[2])
    beginning = block.string[block.end() : block.end() + 500]
    is_repeated = _folded(words) in _folded(beginning)
    return "" if is_repeated or words[:1] in "|>{[&" else words + "\n\n"


def _folded(words: str) -> str:
    """Without case and spaces: translators write a title "A :: b" and its heading "A::B"."""
    return "".join(words.split()).casefold()


_MARKS = frozenset("`>#|-=*_:~^+.[ \t")


def _remove_line_marks(text: str) -> str:
    if text[:1] not in _MARKS and not _RE["marked"].search(text):
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
            line = line if before and _RE["tag_at_end"].search(before) else _without_marks(line)
        left.append(line)
    return "\n".join(left)


def _cells(table: re.Match[str]) -> str:
    rows = (table[1] + table[2].removeprefix("\n")).split("\n")
    return "\n".join([_RE["cell_edge"].sub(" ", row).strip() for row in rows])


def _is_quoted(lines: list[str], at: int) -> bool:
    around = (lines[at - 1] if at else "", lines[at + 1] if at + 1 < len(lines) else "")
    return around[0].startswith("> ") or bool(_RE["quoted_words"].match(around[1]))


def _without_marks(line: str) -> str:
    line = line.lstrip(" \t")
    if line.startswith(">"):
        line = _RE["quote"].sub("", line, count=1)
    mark = _RE["line_mark"].match(line)
    if mark is None:
        return line
    if words := mark["heading"] or mark["definition"] or mark["described"] or mark["item"]:
        return words
    return _RE["cell_edge"].sub(" ", mark["row"]).strip() if mark["row"] else ""
