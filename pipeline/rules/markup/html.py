"""Take HTML out of text that may as well speak of `a < b`, `<3` or `vector<int>`.

Not a parser: corpora hold Markdown, code and broken markup. Only names of real elements count as
tags, and `#include <map>` stays because nothing closes it. Every pattern is linear in the text.
"""

import html
import re
from html.entities import html5

from pipeline.rules.data import read_table

_TABLE = read_table("html")
_BLOCK, _INLINE, _ALONE = (_TABLE[name].split() for name in ("block", "inline", "alone"))
TAG_NAMES = (*_BLOCK, *_INLINE)
# what a tag leaves behind
_BETWEEN = dict.fromkeys(_BLOCK, "\n") | dict.fromkeys(_INLINE, "") | {"td": " ", "th": " "}
_LONG_REFERENCE = re.compile(r"&#[0-9]{500,}+;?")
_BOOLEAN = "|".join(_TABLE["boolean"].split())
# (1) slash, (2) name, (3) attributes: an = somewhere, or words that need none. Behind a backslash
# or backtick it is Markdown that speaks of the tag.
_TAG = re.compile(
    rf"<(?<![\\`]<)(/?)([a-z][a-z0-9]*+)((?:\s[^<>=]*+=[^<>]*+|(?>(?:\s+(?:{_BOOLEAN}))+)\s*+/?)?)\s*+/?>",
    re.IGNORECASE,
)
# behind a backtick that closes code: "`a`<br/>"
_BREAK = re.compile(r"(?<=[\w)\]}>\"';]`)<br\s?/?>(?!`(?:[^A-Za-z_<]|$))", re.IGNORECASE)
_HIDDEN_OPEN = re.compile(r"<(script|style)(?:\s[^<>]*+)?>|<!--|<!doctype\s[^<>]*+>", re.IGNORECASE)
_HIDDEN_CLOSE = {
    "script": re.compile(r"</script\s*>", re.IGNORECASE),
    "style": re.compile(r"</style\s*>", re.IGNORECASE),
    "!--": re.compile(r"-->"),
}
# only with its semicolon: "AT&T", "?a=1&copy=2" are no entities; "`&lt;`" speaks of one
_ENTITY = re.compile(
    r"&(?!(?<=`&)[#\w]{1,31};`)(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
)


def remove_html(text: str) -> str:
    """One round: scripts, styles and comments with what is in them, tags, then entities."""
    if "<" in text:
        text = _remove_tags(_remove_hidden(text))
    return _ENTITY.sub(_unescape, text) if "&" in text else text


def _remove_hidden(text: str) -> str:
    """Cut out comments, doctypes, and scripts and styles that are closed; in one pass."""
    kept: list[str] = []
    unclosed: set[str] = set()
    start = 0
    at = 0
    while opening := _HIDDEN_OPEN.search(text, at):
        name = (opening[1] or opening[0][1:4]).lower()
        at = opening.end()
        if name in _HIDDEN_CLOSE:
            closing = None if name in unclosed else _HIDDEN_CLOSE[name].search(text, at)
            if closing is None:
                unclosed.add(name)  # nor is any later one closed: searching again costs n^2
                continue
            at = closing.end()
        kept += [text[start : opening.start()], "" if name == "!--" else "\n"]
        start = at
    return "".join([*kept, text[start:]])


def unescaped(text: str) -> str:
    """As `html.unescape`, which fails at a reference of more digits than Python converts: that is
    no character either, as one above 0x10FFFF is."""
    try:
        return html.unescape(text)
    except ValueError:
        return html.unescape(_LONG_REFERENCE.sub("\ufffd", text))


def _remove_tags(text: str) -> str:
    closed = {match[2].lower() for match in _TAG.finditer(text) if match[1]}

    def replace(tag: re.Match[str]) -> str:
        name = tag[2].lower()
        if name not in _BETWEEN:
            return tag[0]
        if tag[1] or tag[3] or name in closed or name in _ALONE:
            return _BETWEEN[name]
        return tag[0]

    return _TAG.sub(replace, _BREAK.sub("\n", text) if "`<" in text else text)


def _unescape(entity: re.Match[str]) -> str:
    name = entity[0][1:]
    # html.unescape would also take a prefix: "&notice;" is not "¬ice;"
    return unescaped(entity[0]) if name[0] == "#" else html5.get(name, entity[0])
