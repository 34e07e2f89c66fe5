"""Wikitext that conversion to plain text left behind.

Whole Wikipedia dumps are parsed by the reader; this is for residue in texts of other sources.
"""

import re
from functools import cache

from pipeline.rules.data import compile_all, read_table

_TABLE = read_table("wiki")
MEDIA, CATEGORY = (frozenset(map(str.casefold, _TABLE[name])) for name in ("media", "category"))
_PARTS = _TABLE["parts"] | {"namespaces": "|".join(sorted(MEDIA | CATEGORY))}
_RE = compile_all(_TABLE["patterns"], _PARTS)


def remove_wikitext(text: str) -> str:
    """Links, headings and known templates become their words; references and templates go."""
    if "[" in text and "[[" in text:
        text = _RE["media"].sub("", text)
        text = _RE["bare"].sub(r"\1", _RE["piped"].sub(r"\1", text))
    if "{" in text and "{{" in text:
        shown = _RE["template"].sub(_words, text)
        text = without_holes(shown) if HOLE in shown else shown
    if "=" in text and (text[0] == "=" or "\n=" in text):
        text = _RE["heading"].sub(lambda heading: heading[2] or heading[3], text)
    if "@" in text and "@ " in text:
        text = _RE["tokenised"].sub(r"\1", text)
    if "'" in text and "''" in text:
        text = _RE["quotes"].sub(r"\2", text)
    if "_" in text and "__" in text:
        text = _RE["switch"].sub("", text)
    return _RE["wiki_tag"].sub("", _RE["ref"].sub("", text)) if "<" in text else text


def _words(template: re.Match[str]) -> str:
    forms = shown_forms(template[1], "en")
    return (shown_words(template[1], forms) if forms else "") or HOLE


# What a template of MediaWiki shows of its arguments, by the forms in data/templates.toml.

_TEMPLATES = read_table("templates")
_RANGES, _UNITS = _TEMPLATES["ranges"], _TEMPLATES["units"]

HOLE = "\x00"  # stands where markup without words was removed


def without_holes(text: str) -> str:
    """The text without holes, and without brackets, signs and spaces that served only them."""
    return _RE["gap"].sub(_joined, _RE["around"].sub(HOLE, text))


def _joined(gap: re.Match[str]) -> str:
    if gap[2]:
        return gap[2]
    return (gap[1] or "") + (" " if " " in gap[0] else "")


@cache
def _forms(language: str) -> dict[str, tuple[str, ...]]:
    shown = _TEMPLATES["shown"]
    return {
        name.strip(): tuple(forms.split(" ;; "))
        for table in (shown["every"], shown.get(language, {}))
        for forms, names in table.items()
        for name in names.split("|")
    }


def shown_forms(beginning: str, language: str) -> tuple[str, ...] | None:
    """The forms of the template whose text between the braces begins so, if the table has it."""
    name = " ".join(beginning.partition("|")[0].replace("_", " ").split()).casefold()
    forms = _forms(language)
    if name in forms:
        return forms[name]
    function, colon, _ = name.partition(":")
    family, hyphen, _ = name.partition("-")
    return forms.get(function.rstrip() + ":") if colon else forms.get(f"{family}{hyphen}*")


def shown_words(inside: str, forms: tuple[str, ...]) -> str:
    """The first of the forms whose slots all have words, filled; otherwise nothing."""
    head, _, rest = inside.partition("|")
    unnamed = head.partition(":")[2:] if ":" in head else ()
    arguments = _arguments([*unnamed, *(rest.split("|") if rest else ())])
    for form in forms:
        pieces = _RE["slot"].split(form)
        pieces[1::2] = [_fill(slot, arguments) for slot in pieces[1::2]]
        if all(pieces[1::2]):
            return "".join(pieces)
    return ""


def _arguments(parts: list[str]) -> dict[str, str]:
    """By name, in small letters; those without one have their number."""
    arguments: dict[str, str] = {}
    num_unnamed = 0
    for part in parts:
        if named := _RE["named"].match(part):
            arguments[named[1].rstrip().casefold()] = part[named.end() :].strip()
        else:
            num_unnamed += 1
            arguments[str(num_unnamed)] = part.strip()
    return arguments


def _fill(slot: str, arguments: dict[str, str]) -> str:
    if slot[0] in "=*":
        unnamed = [words for name, words in arguments.items() if name.isdecimal()]
        return _converted(unnamed) if slot == "=" else slot[1:].join(filter(None, unnamed))
    if "," in slot:
        return ", ".join(filter(None, (arguments.get(name) for name in slot.split(","))))
    return next(filter(None, (arguments.get(name) for name in slot.split("|"))), "")


def _converted(parts: list[str]) -> str:
    """Numbers and their unit, as `convert` is given them: "5–10 km"."""
    words = ""
    for at, part in enumerate(parts[:16]):
        if at % 2 and part not in _RANGES:
            return f"{words} {_UNITS.get(part, part)}"
        words += _RANGES.get(part, part)
    return words
