"""Take HTML out of text that may as well speak of `a < b`, `<3` or `vector<int>`.

Not a parser: corpora hold Markdown, code and broken markup. Only names of real elements count as
tags, and `#include <map>` stays because nothing closes it. Every pattern is linear in the text.
"""

import html
import re
from html.entities import html5

from pipeline.rules.data import compile_all, read_table

_TABLE = read_table("html")
_BLOCK, _INLINE, _ALONE = (_TABLE[name].split() for name in ("block", "inline", "alone"))
TAG_NAMES = (*_BLOCK, *_INLINE)
# what a tag leaves behind
_BETWEEN = dict.fromkeys(_BLOCK, "\n") | dict.fromkeys(_INLINE, "") | {"td": " ", "th": " "}
_RE = compile_all(_TABLE["patterns"], {"boolean": "|".join(_TABLE["boolean"].split())})
_EXPONENT = re.compile(r"(?<=\d)<sup>([-+\u2212]?\d{1,3})</sup>")
_RAISED = str.maketrans("0123456789+-\u2212", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_HIDDEN_CLOSE = {
    "script": re.compile(r"</script\s*>", re.IGNORECASE),
    "style": re.compile(r"</style\s*>", re.IGNORECASE),
    "!--": re.compile(r"-->"),
}


def remove_html(text: str) -> str:
    """One round: scripts, styles and comments with what is in them, tags, then entities."""
    if "<" in text:
        text = _remove_tags(raised(_remove_hidden(text)))
    return _RE["entity"].sub(_unescape, text) if "&" in text else text


def raised(text: str) -> str:
    """An exponent in characters of its own: 10<sup>3</sup> is 10³, and not 103."""
    if "<sup>" not in text:
        return text
    return _EXPONENT.sub(lambda match: match[1].translate(_RAISED), text)


def _remove_hidden(text: str) -> str:
    """Cut out comments, declarations, and scripts and styles that are closed; in one pass."""
    kept: list[str] = []
    unclosed: set[str] = set()
    start = 0
    at = 0
    while opening := _RE["hidden_open"].search(text, at):
        name = (opening[1] or opening[0][1:4]).lower()
        at = opening.end()
        if name in _HIDDEN_CLOSE:
            closing = None if name in unclosed else _HIDDEN_CLOSE[name].search(text, at)
            if closing is None:
                unclosed.add(name)  # nor is any later one closed: searching again costs n^2
                continue
            at = closing.end()
        kept += [text[start : opening.start()], "" if name[0] == "!" and name != "!do" else "\n"]
        start = at
    return "".join([*kept, text[start:]])


def unescaped(text: str) -> str:
    """As `html.unescape`, which fails at a reference of more digits than Python converts: that is
    no character either, as one above 0x10FFFF is."""
    try:
        return html.unescape(text)
    except ValueError:
        return html.unescape(_RE["long_reference"].sub("\ufffd", text))


def _remove_tags(text: str) -> str:
    closed = {match[2].lower() for match in _RE["tag"].finditer(text) if match[1]}

    def replace(tag: re.Match[str]) -> str:
        name = tag[2].lower()
        if ":" not in name and name not in _BETWEEN:
            return tag[0]
        if tag[1] or tag[3] or name in closed or name in _ALONE:
            return _BETWEEN.get(name, "")
        return tag[0]

    return _RE["tag"].sub(replace, _RE["break"].sub("\n", text) if "`<" in text else text)


def _unescape(entity: re.Match[str]) -> str:
    name = entity[0][1:]
    # html.unescape would also take a prefix: "&notice;" is not "¬ice;"
    return unescaped(entity[0]) if name[0] == "#" else html5.get(name, entity[0])
