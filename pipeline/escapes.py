"""Backslashes with which Markdown escapes its marks, where they cannot be code, paths or LaTeX."""

import re

from pipeline.markup import TAG_NAMES

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
