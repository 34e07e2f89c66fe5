"""What a language code stands for: its scripts, and the codes that models give its texts."""

from functools import lru_cache

import pycld2
from langcodes import Language

from pipeline.rules.scripts import SCRIPTS

_SEVERAL = tuple("az uz kk ky tk tt tg ug ku mn sr sh bs ro crh gag kaa ba".split())  # noqa: SIM905
_WITH_ARABIC = tuple("pa sd ks ms ha sw wo so su jv".split())  # noqa: SIM905
# languages as they are written in more than one script, or in another than langcodes' usual one
_WRITTEN_IN: dict[str, tuple[str, ...]] = {
    "ko": ("Hang",),
    "ja": ("Kana", "Hani"),
    "zh": ("Hani",),
    **dict.fromkeys(_SEVERAL, ("Latn", "Cyrl", "Arab")),
    **dict.fromkeys(_WITH_ARABIC, ("Latn", "Arab", "Guru", "Deva")),
}
_SCRIPTS_OF_CODE = {
    "Kore": ("Hang",),
    "Jpan": ("Kana", "Hani"),
    "Hans": ("Hani",),
    "Hant": ("Hani",),
}
# codes that stand for one language, or that models take for one another
_FAMILIES = tuple(
    frozenset(codes.split())
    for codes in (
        "no nb nn da",
        "hr sr bs sh cnr sr-ME",
        "id ms min bjn",
        "ar arz ary",
        "fa prs",
        "he iw",
        "jv jw su",
        "tl fil",
        "gl pt",
        "en sco",
        "es gl ast an ext",
        "zh zh-Hant wuu yue",
        "ro mo",
        "sq aln",
        "az azb crh",
        "uz uzs",
        "ku ckb kmr sdh",
        "lv ltg",
        "be ru",
        "mk bg",
        "cs sk",
        "oc ca",
        "tr crh",
        "ba tt",
    )
)


@lru_cache
def scripts_of(language: str) -> frozenset[str]:
    """The scripts a language is written in; empty where they are not known."""
    if language in _WRITTEN_IN:
        return frozenset(_WRITTEN_IN[language])
    likely = Language.get(language).maximize()
    # for a language it does not know langcodes answers as for English: Latin, US
    if likely.script is None or (likely.territory == "US" and language != "en"):
        return frozenset()
    return frozenset(_SCRIPTS_OF_CODE.get(likely.script, (likely.script,))) & frozenset(SCRIPTS)


@lru_cache
def family_of(language: str) -> frozenset[str]:
    """The codes a model may give a text of the language; empty where no model knows it."""
    detected = set(pycld2.DETECTED_LANGUAGES)
    known = {code for name, code in pycld2.LANGUAGES if name in detected}
    family = frozenset({language}).union(*(codes for codes in _FAMILIES if language in codes))
    return family if family & known else frozenset()


@lru_cache
def has_spaces(language: str) -> bool:
    """Is the language written with spaces between its words?"""
    return not scripts_of(language) & {"Kana", "Hani", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"}
