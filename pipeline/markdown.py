"""Markdown to its words: front matter, marks of lines, links, references, emphasis, escapes.

The rules see no difference between prose and code, because a second run would not see it either:
the marks of code blocks are gone by then. So each takes only what prose of the kind writes and code
does not: "a[i](x)", "__init__", "*p = *q", "#include", "#1" and "a * b * c" stay. Inline code keeps
its backticks: they protect what stands in them.
"""

import re

from pipeline.emphasis import remove_emphasis
from pipeline.links import remove_links, remove_references
from pipeline.markdown_dialects import remove_dialects, remove_rst

_INLINE_MARK = re.compile(r"[*_\[\\`{]|:::|%%|#@|-\*-")
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n((?:(?!\1)[^\n]*+\n){1,500}+)\1[ \t]*(?:\n|\Z)")
_FRONT_LINE = re.compile(
    r"[\w.\-/]{1,60}(?: [\w.\-/]{1,30})?[ \t]*[:=](?:\s|$)|[ \t]|-(?:\s|$)|[#\]\[}{]"
)
_TITLE = re.compile(
    r"^(?:title|제목)\s*[:=]\s*(['\"]?)(\S[^\n]*?)\1[ \t]*$", re.MULTILINE | re.IGNORECASE
)
_TITLE_END = re.compile(r"\s*[|–-]\s*(?:Microsoft (?:Docs|Learn)|MDN)\b[^\n]*$", re.IGNORECASE)


def remove_markdown(text: str) -> str:
    """One round over all marks that the text holds."""
    if not (text[:1] in _MARKS or _INLINE_MARK.search(text) or _MARKED.search(text)):
        return text
    if text.startswith(("---", "+++")):
        text = _FRONT_MATTER.sub(_after_front_matter, text, count=1)
    text = remove_dialects(text)
    text = _remove_line_marks(text)
    text = remove_links(text)
    text = remove_references(text)
    text = remove_emphasis(text)
    text = remove_rst(text)
    return _ESCAPE.sub("", text) if "\\" in text else text


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
    return "" if words in beginning or words[:1] in "|>{[&" else words + "\n\n"


_MARKS = frozenset("`>#|-=*_:~+.[ \t")
_QUOTE = re.compile(r"(?:>[ \t]*(?=\[!|>)|>[ \t]+(?![<_\-=.>]))++")
_LINE_MARK = re.compile(
    r"(?P<fence>```+[^`]*$)"
    # a rule, or the underline of a heading; behind # in notebooks that are Python files
    r"|(?P<rule>(?:#+[ \t]*)?(?:([-=*_#])\3{2,}|[-*_](?:[ \t]+[-*_]){2,})[ \t]*$)"
    r"|(?P<columns>(?=[^|]*\|)(?=[^-]*-)[-|: \t]+$)"
    r"|#{1,6}(?:[ \t]+(?P<heading>[^\s#].*?)(?:[ \t]+#+)?|)[ \t]*$"
    r"|\|(?!\|)(?P<row>.*)\|[ \t]*$"
    r"|(?:::[ \t]*$|:[ \t]+(?P<definition>\w\w.*))"
)
_CELL_EDGE = re.compile(r"[ \t]*(?<!\\)\|[ \t]*")


def _remove_line_marks(text: str) -> str:
    if text[:1] not in _MARKS and not _MARKED.search(text):
        return text
    lines = text.split("\n")
    if ">" in lines:  # blank lines of a quotation; by itself it may close a tag of many lines
        lines = [
            "" if line == ">" and _is_quoted(lines, at) else line for at, line in enumerate(lines)
        ]
    return "\n".join(
        [_without_marks(line) if line and line[0] in _MARKS else line for line in lines]
    )


def _is_quoted(lines: list[str], at: int) -> bool:
    return at > 0 and lines[at - 1].startswith("> ")


_MARKED = re.compile(r"\n[ \t]*+[`>#|\-=*_:~+.\[]")


def _without_marks(line: str) -> str:
    line = line.lstrip(" \t")
    if line.startswith(">"):
        line = _QUOTE.sub("", line, count=1)
    mark = _LINE_MARK.match(line)
    if mark is None:
        return line
    if words := mark["heading"] or mark["definition"]:
        return words
    return _CELL_EDGE.sub(" ", mark["row"]).strip() if mark["row"] else ""


# "1\." of a numbered line, "foo\_bar", "\<map.h>", and a backslash that only breaks the line
_ESCAPE = re.compile(
    r"\\(?:(?<=^\d\\)|(?<=^\d\d\\)|(?<=^[가-하A-Za-z]\\))(?=[.)] )"
    r"|\\(?<=[\w가-힣]\\)(?=_\w)|\\(?<=[\w*.)`가-힣]\\)$|\\(?=<[\w/.]{1,40}\.h>)",
    re.MULTILINE,
)
