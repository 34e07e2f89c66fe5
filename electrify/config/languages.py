"""Language codes: two letters (ISO 639-1), or three where a language has no shorter one."""

# what is often written in place of a language's code: a country's, or an English name
_OFTEN_MEANT = {
    "kr": "ko",
    "kp": "ko",
    "jp": "ja",
    "cn": "zh",
    "hk": "zh",
    "ua": "uk",
    "gr": "el",
    "cz": "cs",
    "dk": "da",
    "us": "en",
    "gb": "en",
    "at": "de",
    "mx": "es",
    "vn": "vi",
    "il": "he",
    "rs": "sr",
    "ir": "fa",
    "arabic": "ar",
    "chinese": "zh",
    "english": "en",
    "french": "fr",
    "german": "de",
    "hindi": "hi",
    "japanese": "ja",
    "korean": "ko",
    "russian": "ru",
    "spanish": "es",
    "vietnamese": "vi",
}


def check_language(code: str) -> str:
    """The code itself; `ValueError` for one that is no language, with what may have been meant."""
    # here: pretraining alone needs no list of languages, nor the package that has it
    from langcodes import Language
    from langcodes.tag_parser import LanguageTagError

    try:
        language = Language.get(code)
    except LanguageTagError:
        language = None
    if language is None or language.language is None or not language.is_valid():
        meant = _OFTEN_MEANT.get(code.strip().lower())
        raise ValueError(
            f"{code!r} is no language code; "
            + (f"did you mean {meant!r}? " if meant else "")
            + "Write the ISO 639 code, such as ko, en, ja, zh, ceb"
        )
    if code == "kr":  # Kanuri has it, but who writes it means Korean
        raise ValueError("'kr' is a country; did you mean 'ko'? Kanuri is written 'knc' here")
    if str(language) != code or code != language.language:
        raise ValueError(f"{code!r} is written {language.language!r} here (ISO 639, no region)")
    return code
