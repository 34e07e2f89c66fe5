"""Language codes: two letters (ISO 639-1), or three where a language has no shorter one."""

from langcodes import Language
from langcodes.tag_parser import LanguageTagError


def check_language(code: str) -> str:
    """The code itself; `ValueError` for one that is no language, with what may have been meant."""
    try:
        language = Language.get(code)
    except LanguageTagError:
        language = None
    if language is None or language.language is None or not language.is_valid():
        raise ValueError(
            f"{code!r} is no language code; write the ISO 639 code, such as ko, en, ja, zh, ceb"
        )
    if str(language) != code or code != language.language:
        raise ValueError(f"{code!r} is written {language.language!r} here (ISO 639, no region)")
    return code
