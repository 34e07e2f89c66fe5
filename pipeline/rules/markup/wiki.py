"""Wikitext that conversion to plain text left behind.

Whole Wikipedia dumps are parsed by the reader; this is for residue in texts of other sources.
"""

import re

from pipeline.rules.data import read_table
from pipeline.rules.markup.templates import HOLE, shown_forms, shown_words, without_holes

_REF = re.compile(r"<ref(?:\s[^<>/]*+)?/>|<ref(?:\s[^<>]*+)?>[^<>]{0,2000}</ref\s*>", re.I)
_WIKI_TAG = re.compile(r"</?(?:nowiki|poem|gallery|noinclude|includeonly|onlyinclude)\s*/?>")
_TABLE = read_table("wiki")
MEDIA, CATEGORY = (frozenset(map(str.casefold, _TABLE[name])) for name in ("media", "category"))
_NAMESPACES = "|".join(_TABLE["residue"])
_MEDIA = re.compile(rf"\[\[:?(?:{_NAMESPACES}):[^\[\]\n]*+\]\]", re.IGNORECASE)
_PIPED = re.compile(
    r"\[\[(?<![A-Za-z0-9_\])]\[\[)[^\W\d][^\[\]|\n\"'=]{0,200}+\|([^\[\]|\n]{1,200})\]\]"
)
# "x[[1]]", "[[nodiscard]]" and "[[Prototype]]" are code: a bare link must hold another script
_BARE = re.compile(r"\[\[((?=[^\[\]\n]{0,200}[^\x00-\x7f])[^\W\d][^\[\]|\n\"'=$]{0,200})\]\]")
# "{{name|...}}" and "{{formatnum:...}}"; "{{ x | upper }}" is Jinja
_TEMPLATE = re.compile(
    r"\{\{((?:[^\s{}|\"'().\[\]][^{}|\"'().\[\]]{0,80}(?<! )\||formatnum:)[^{}]*+)\}\}"
)
_TITLE = r"([^=\s](?:[^\n]*[^=\s])?)"
_HEADING = re.compile(
    rf"^ *(?:(={{2,6}}) ?{_TITLE} ?\1|(?:= ){{1,6}}{_TITLE}(?: =){{1,6}}) *$", re.MULTILINE
)
# WikiText (Merity et al. 2016) writes "1 @,@ 000" and "well @-@ known"
_TOKENISED = re.compile(r" @([\-,.])@ ")
_QUOTES = re.compile(
    r"''(?<!['\w]'')('{0,1}|'{3})(?=[\w(\"《「])([^'\n]{1,300})(?<=[\w.)\"》」!?])''\1(?!')"
)
_SWITCH = re.compile(r"__(?:NO)?(?:TOC|EDITSECTION|INDEX|NEWSECTIONLINK)__")


def remove_wikitext(text: str) -> str:
    """Links, headings and known templates become their words; references and templates go."""
    if "[" in text and "[[" in text:
        text = _MEDIA.sub("", text)
        text = _BARE.sub(r"\1", _PIPED.sub(r"\1", text))
    if "{" in text and "{{" in text:
        shown = _TEMPLATE.sub(_words, text)
        text = without_holes(shown) if HOLE in shown else shown
    if "=" in text and (text[0] == "=" or "\n=" in text):
        text = _HEADING.sub(lambda heading: heading[2] or heading[3], text)
    if "@" in text and "@ " in text:
        text = _TOKENISED.sub(r"\1", text)
    if "'" in text and "''" in text:
        text = _QUOTES.sub(r"\2", text)
    if "_" in text and "__" in text:
        text = _SWITCH.sub("", text)
    return _WIKI_TAG.sub("", _REF.sub("", text)) if "<" in text else text


def _words(template: re.Match[str]) -> str:
    forms = shown_forms(template[1], "en")
    return (shown_words(template[1], forms, "en") if forms else "") or HOLE
