"""Names that a config may hold: codes of languages, Beam's runners, addresses of files.

A code has two letters (ISO 639-1), or three where a language has no shorter one.
"""

import re

from electrify.system.outcome import UserError, nearest

_ENGLISH_NAMES = {
    "arabic": "ar",
    "chinese": "zh",
    "english": "en",
    "french": "fr",
    "gb": "en",
    "german": "de",
    "hindi": "hi",
    "japanese": "ja",
    "korean": "ko",
    "russian": "ru",
    "spanish": "es",
    "us": "en",
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
        given = code.strip().lower()
        meant = _ENGLISH_NAMES.get(given)
        if meant is None and len(given) == 2 and given.isascii():
            # a country's, such as jp: what is spoken there
            spoken = Language.make(territory=given.upper()).maximize().language
            meant = None if spoken == "en" else spoken  # which it also is for no country's
        raise UserError(
            f"{code!r} is no language code; "
            + (f"did you mean {meant!r}? " if meant else "")
            + "Write the ISO 639 code, such as ko, en, ja, zh, ceb"
        )
    if code == "kr":  # Kanuri has it, but who writes it means Korean
        raise UserError("'kr' is a country; did you mean 'ko'? Kanuri is written 'knc' here")
    if str(language) != code or code != language.language:
        raise UserError(f"{code!r} must be written {language.language!r} (ISO 639, no region)")
    return code


# those of apache_beam's StandardOptions
RUNNERS = (
    "BundleBasedDirectRunner",
    "DataflowRunner",
    "DirectRunner",
    "FlinkRunner",
    "FnApiRunner",
    "InteractiveRunner",
    "KafkaStreamsRunner",
    "PortableRunner",
    "PrismRunner",
    "SparkRunner",
    "SwitchingDirectRunner",
    "TestDataflowRunner",
    "TestDirectRunner",
)
_BY_NAME = {"local": "local"} | {
    key: name for name in RUNNERS for key in (name.lower(), name.lower().removesuffix("runner"))
}


def runner_name(name: str) -> str:
    """A runner as Beam writes it; a class with its module stays as it is.

    `ValueError` for another name, with the nearest.
    """
    if name.lower() in _BY_NAME:
        return _BY_NAME[name.lower()]
    if "." in name:
        return name
    raise UserError(
        f"{name!r} is no Beam runner{nearest(name, ('local', *RUNNERS))} (a runner of your own "
        "is written with its module, such as my_package.MyRunner)"
    )


_ADDRESS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.\-]*)://([^\s'\"<>]+)")
_USER = re.compile(r"[^/?#@]*@|[^/?#@:]*:(?![0-9]+(?:/|$))[^@]*@")  # with a password, if any
_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")  # Azure writes one where others write a user


def without_secrets(text: str) -> str:
    """The text with users, passwords and queries cut out of the addresses in it.

    A "?" without "=" may be a wildcard, but not on the web.
    """
    return _ADDRESS.sub(_without_secrets, text) if "://" in text else text


def _without_secrets(address: re.Match[str]) -> str:
    protocol, rest = address[1].lower(), address[2]
    if protocol not in _CONTAINERS:
        rest = _USER.sub("", rest, count=1) if _USER.match(rest) else rest
    place = re.split("[?#]", rest, maxsplit=1)[0]
    has_query = protocol in ("http", "https") or "=" in rest[len(place) :]
    return f"{address[1]}://{place if has_query else rest}"
