"""Wikitext and Aozora Bunko markup that conversion to plain text left behind.

Whole Wikipedia dumps are parsed by the reader; this is for residue in texts of other sources.
"""

import re

from pipeline.rules.data import read_table
from pipeline.rules.hangul import HANJA_RANGES
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


_KEY_TO_MARKS = re.compile(r"^-{20,}\n【テキスト中に現れる記号について】\n.*?^-{20,}$", re.M | re.S)
_COLOPHON = re.compile(r"\n底本：(?=.{0,6000}青空文庫).{0,6000}\Z", re.DOTALL)
# a character outside JIS X 0208, described by its plane-row-cell or its code point
_GAIJI = re.compile(
    r"※［＃[^］\n]{0,80}?(?:U\+([0-9A-F]{4,5})|(?:第[34]水準|、)([12])-(\d\d?)-(\d\d?))[^］\n]{0,40}］"
)
_ANNOTATION = re.compile(r"［＃[^［］\n]{1,200}(?:［[^［］\n]*］[^［］\n]*)?］")
_KANA = r"[ぁ-ゖァ-ヺー・ゝゞヽヾ／＼″〱〲 　]{1,40}》"
# Behind Han characters, their repeat marks, a note, Latin letters or digits. Behind kana a reading
# has the mark ｜ before its word: "ゴッホの《ひまわり》" is a title.
_READ = rf"々〆〇ヶヵ※Ａ-Ｚａ-ｚ０-９0-9A-Za-z\u00c0-\u024f{HANJA_RANGES}"
_READING = re.compile(rf"《(?<=[{_READ}]《){_KANA}")
_MARKED_READING = re.compile(rf"｜([^｜\n《》]{{1,40}})《{_KANA}")
_REPEATED = (("／＼", "〱"), ("／″＼", "〲"))  # the marks of vertical text that repeat syllables
_RUBY_BASE = re.compile(r"｜(?=[^｜\n《》]{1,40}《)")


def remove_aozora(text: str) -> str:
    """Readings, annotations, the key to the marks and the colophon of Aozora Bunko. Japanese."""
    if "底本：" in text:
        text = _COLOPHON.sub("", text)
    if "【テキスト中" in text:
        text = _KEY_TO_MARKS.sub("", text)
    if "［＃" in text:
        text = _ANNOTATION.sub("", _GAIJI.sub(_gaiji, text))
    if "《" in text:
        text = _READING.sub("", _RUBY_BASE.sub("", _MARKED_READING.sub(r"\1", text)))
    if "＼" in text:
        for written, mark in _REPEATED:
            text = text.replace(written, mark)
    return text


def _gaiji(note: re.Match[str]) -> str:
    if note[1]:
        character = chr(int(note[1], 16))
        return character if character.isprintable() else note[0]
    plane, row, cell = (int(part) for part in note.group(2, 3, 4))
    code = bytes((0xA0 + row, 0xA0 + cell)) if row < 95 and cell < 95 else b""
    try:
        return ((b"\x8f" if plane == 2 else b"") + code).decode("euc_jis_2004") or note[0]
    except UnicodeDecodeError:
        return note[0]
