"""The markup of Namuwiki and of other wikis on its engine: marks and macros go, words stay. Korean.

`||`, `~~`, `--` and `[*` are code and chat too. They are markup only in a text that has a mark that
nothing else has, or two weaker ones.
"""

import re

from pipeline.rules.data import compile_all, read_table
from pipeline.rules.markup.wiki import CATEGORY, MEDIA

_TABLE = read_table("wiki")["namuwiki"]
_RE = compile_all(_TABLE["patterns"], _TABLE["parts"])
_SURE = [(mark, re.compile(pattern, re.I)) for mark, pattern in _TABLE["sure"]]
_WEAK = [(mark, re.compile(pattern)) for mark, pattern in _TABLE["weak"]]

_HIDDEN = MEDIA | CATEGORY
_MAX_DEPTH = 16
_LITERAL = "\x01"  # between two marks of code, so that they are none
_STYLES = [re.compile(pattern) for pattern in _TABLE["styles"]]


def remove_namuwiki(text: str) -> str:
    """Words of links, tables, notes (on a line below) and folded parts stay; redirects go."""
    if text[:1] == "#" and _RE["redirect"].fullmatch(text):
        return ""
    if not _is_page(text):
        return text
    text = _without_braces(text)
    text = _RE["link"].sub(_label, text)
    for style in _STYLES:
        text = style.sub(r"\1", text)
    text = _RE["macro"].sub(lambda macro: "\n" if macro["br"] else macro["ruby"] or "", text)
    for _ in range(4):  # a note may stand in a note
        if "[*" not in text:
            break
        text = _notes_below(text)
    if _RE["heading"].search(text):  # otherwise it is Markdown
        text = _RE["comment"].sub("", text)
    text = _RE["quote"].sub("", _RE["heading"].sub(r"\2", text))
    return "\n".join(map(_row, text.split("\n"))).replace(_LITERAL, "")


def _is_page(text: str) -> bool:
    for mark, pattern in _SURE:
        if mark in text and pattern.search(text):  # one character is found ten times as fast
            return True
    for mark, pattern in _WEAK:
        if mark in text and pattern.search(text):
            return _RE["wiki"].search(text) is not None
    return False


def _without_braces(text: str) -> str:
    stack: list[list[str]] = [[]]
    at = num_deeper = 0
    for mark in _RE["braces"].finditer(text):
        stack[-1].append(text[at : mark.start()])
        at = mark.end()
        if mark[0] == "{{{":
            if len(stack) > _MAX_DEPTH:
                num_deeper += 1
                stack[-1].append(mark[0])
            else:
                stack.append([])
        elif num_deeper or len(stack) == 1:
            num_deeper = max(0, num_deeper - 1)
            stack[-1].append(mark[0])
        else:
            inside = "".join(stack.pop())
            stack[-1].append(_inside(inside))
    stack[-1].append(text[at:])
    return "{{{".join("".join(pieces) for pieces in stack)


def _inside(block: str) -> str:
    """What a reader sees of a block in braces."""
    kind = _RE["block"].match(block)
    if kind is None or kind["code"]:
        code = block[kind.end() :] if kind else block
        return _RE["double"].sub(rf"\1{_LITERAL}", code)
    if kind["dropped"]:
        return ""
    title = (kind["title"] or "").strip()
    shown = "" if not title or _RE["button"].fullmatch(title) else title.strip("[] ")
    return shown + block[kind.end() :]


def _label(link: re.Match[str]) -> str:
    target, _, label = link[1].partition("|")
    namespace, colon, _ = target.partition(":")
    if colon and namespace.strip().casefold() in _HIDDEN:
        return ""
    page = target if "://" in target else target.partition("#")[0].strip(":/. ")
    return label.strip() or page or target.lstrip("#")


def _notes_below(text: str) -> str:
    """The words of each note on a line of their own, below the line with its mark."""
    pieces: list[str] = []
    notes: list[str] = []
    at = 0

    def add(between: str) -> None:
        line, newline, rest = between.partition("\n")
        if notes and newline:
            pieces.append("\n".join([line, *notes]) + newline + rest)
            notes.clear()
        else:
            pieces.append(between)

    for note in _RE["note"].finditer(text):
        add(text[at : note.start()])
        at = note.end()
        if note[1] and note[1].strip():
            notes.append(" ".join(note[1].split()))
    add(text[at:] + "\n")
    return "".join(pieces).removesuffix("\n")


def _row(line: str) -> str:
    if line.endswith("||"):
        line = _RE["caption"].sub(r"\1 ", line)
    elif not line.startswith("||") or line.endswith("|"):  # Markdown ends a row with one
        return line
    return _RE["cell"].sub(" ", line).strip()
