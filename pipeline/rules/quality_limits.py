"""Limits of the quality rules: FineWeb-2's values by language, adapted by kind of source.

Sources: Gopher (Rae et al. 2021, table A1), C4 (Raffel et al. 2020), FineWeb, and FineWeb-2's
configs by language (kor_Hang.yml ...), whose n-gram and line limits stand here unchanged. Changed:
- word length is that of words between spaces (Korean eojeol), not of Kiwi morphemes as there;
- a text may be short: Gopher asks for 50 words, which no comment and few stubs have, and an eojeol
  is nearly two English words;
- a rule for web pages (full stops, line lengths) is for web pages alone: it would delete petitions
  of one line and documentation with code;
- Korean: share of words that end in a particle; low in lists of keywords and machine output.
"""

from collections.abc import Callable
from functools import lru_cache

from electrify.config.clean import Profile, QualityLimits
from pipeline.rules.language_codes import scripts_of

# dup_line_frac, top 2/3/4, dup 5..10, line_punct_thr, new_line_ratio, alphabetic
_FINEWEB2 = {
    "en": (0.30, (0.20, 0.18, 0.16), (0.15, 0.14, 0.13, 0.12, 0.11, 0.10), 0.12, 0.30, 0.80),
    "ko": (
        0.374,
        (0.282, 0.228, 0.185),
        (0.201, 0.184, 0.168, 0.154, 0.14, 0.127),
        0.062,
        0.196,
        0.791,
    ),
    "ja": (
        0.375,
        (0.121, 0.129, 0.145),
        (0.307, 0.283, 0.264, 0.248, 0.234, 0.223),
        0.167,
        0.162,
        0.759,
    ),
    "zh": (
        0.287,
        (0.256, 0.201, 0.171),
        (0.198, 0.182, 0.167, 0.154, 0.14, 0.127),
        0.106,
        0.178,
        0.735,
    ),
    "de": (
        0.263,
        (0.169, 0.153, 0.137),
        (0.141, 0.134, 0.126, 0.117, 0.108, 0.098),
        0.0,
        0.152,
        0.774,
    ),
    "fr": (
        0.264,
        (0.161, 0.149, 0.134),
        (0.15, 0.141, 0.131, 0.121, 0.111, 0.1),
        0.1,
        0.185,
        0.812,
    ),
    "es": (
        0.265,
        (0.077, 0.097, 0.112),
        (0.152, 0.137, 0.123, 0.114, 0.107, 0.099),
        0.3,
        0.171,
        0.825,
    ),
    "ru": (
        0.322,
        (0.184, 0.164, 0.146),
        (0.168, 0.156, 0.145, 0.133, 0.121, 0.109),
        0.231,
        0.139,
        0.713,
    ),
    "vi": (
        0.293,
        (0.223, 0.197, 0.171),
        (0.178, 0.163, 0.15, 0.136, 0.124, 0.111),
        0.333,
        0.103,
        0.803,
    ),
    "ar": (
        0.304,
        (0.197, 0.172, 0.146),
        (0.165, 0.153, 0.142, 0.131, 0.12, 0.109),
        0.143,
        0.189,
        0.787,
    ),
    "hi": (
        0.206,
        (0.208, 0.198, 0.161),
        (0.135, 0.125, 0.116, 0.108, 0.099, 0.09),
        0.091,
        0.316,
        0.837,
    ),
}
# other languages: the loosest of the above
_OTHER = (0.375, (0.282, 0.228, 0.185), (0.307, 0.283, 0.264, 0.248, 0.234, 0.223), 0.0, 0.316, 0.7)
# characters a word between spaces: FineWeb-2's; Korean by eojeol: the mean of prose is 3 to 4, but
# who leaves spaces out writes good Korean with means of 9 and, in a short comment, of 46
_WORD_LENGTH = {
    "en": (3.0, 10.0),
    "ko": (1.5, 10.0),
    "de": (3.0, 15.0),
    "fr": (2.0, 11.0),
    "es": (3.0, 14.0),
    "ru": (3.0, 11.0),
    "vi": (2.0, 11.0),
    "ar": (2.0, 9.0),
    "hi": (2.0, 21.0),
}


@lru_cache
def limits_for(
    language: str, profile: Profile, overrides: QualityLimits | None = None
) -> QualityLimits:
    """The limits of a language and a kind of source; what `overrides` gives goes before them."""
    if profile == "none":
        return QualityLimits()
    limits = _PROFILES[profile](_web(language))
    if not has_spaces(language):
        limits = _changed(
            limits,
            min_mean_word_length=None,
            max_mean_word_length=None,
            max_word_length=None,
            max_top_word=None,
        )
    own = overrides.model_dump(exclude_none=True) if overrides else {}
    return _changed(limits, **own)


@lru_cache
def has_spaces(language: str) -> bool:
    """Is the language written with spaces between its words?"""
    return not scripts_of(language) & {"Kana", "Hani", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"}


def _web(language: str) -> QualityLimits:
    lines, top, duplicate, punctuated, newlines, alphabetic = _FINEWEB2.get(language, _OTHER)
    shortest, longest = _WORD_LENGTH.get(language, (1.5, 21.0))
    return QualityLimits(
        min_words=10 if language == "ko" else 20,
        max_words=100_000,
        min_mean_word_length=shortest,
        max_mean_word_length=longest,
        max_word_length=1000,
        min_script_letters=0.3,
        min_alphabetic_words=alphabetic,
        max_symbols_per_word=0.1,
        min_function_words=2,
        min_particles=0.2 if language == "ko" else None,
        max_bullet_lines=0.9,
        max_ellipsis_lines=0.3,
        min_punctuated_lines=punctuated,
        max_short_lines=0.9,
        max_newlines_per_word=newlines,
        max_policy_lines=0.3,
        max_lorem_ipsum=0,
        max_duplicate_lines=lines,
        max_duplicate_line_characters=0.2,
        max_duplicate_paragraphs=lines,
        max_top_2gram=top[0],
        max_top_3gram=top[1],
        max_top_4gram=top[2],
        max_duplicate_5gram=duplicate[0],
        max_duplicate_6gram=duplicate[1],
        max_duplicate_7gram=duplicate[2],
        max_duplicate_8gram=duplicate[3],
        max_duplicate_9gram=duplicate[4],
        max_duplicate_10gram=duplicate[5],
    )


def _encyclopaedia(web: QualityLimits) -> QualityLimits:
    """Stubs, lists and tables are articles too; sentences repeat between sister articles."""
    return _changed(
        _repeating(web, 1.5),
        min_words=8,
        max_words=None,
        min_alphabetic_words=0.6,
        min_particles=web.min_particles and 0.1,
        min_punctuated_lines=None,
        max_short_lines=None,
        max_newlines_per_word=None,
        max_bullet_lines=0.95,
        min_function_words=1,
        max_duplicate_lines=0.5,
        max_duplicate_line_characters=0.4,
        max_duplicate_paragraphs=0.5,
    )


def _documentation(web: QualityLimits) -> QualityLimits:
    """Code, tables, names with dots, articles of law: nearly anything but gibberish."""
    return _changed(
        _without_ngrams(web),
        min_words=5,
        max_words=None,
        min_mean_word_length=1.0,
        max_mean_word_length=web.max_mean_word_length and 3 * web.max_mean_word_length,
        max_word_length=5000,
        min_script_letters=0.05,
        min_alphabetic_words=0.4,
        max_symbols_per_word=None,
        min_function_words=1,
        min_particles=web.min_particles and 0.03,
        max_bullet_lines=None,
        max_ellipsis_lines=0.6,
        min_punctuated_lines=None,
        max_short_lines=None,
        max_newlines_per_word=None,
        max_lorem_ipsum=None,
        max_policy_lines=None,
        max_duplicate_lines=0.9,
        max_duplicate_line_characters=0.75,
        max_duplicate_paragraphs=0.9,
    )


def _speech(web: QualityLimits) -> QualityLimits:
    """Transcripts: no full stops in some, refrains and (applause) in others."""
    return _changed(
        _repeating(web, 1.5),
        min_words=5,
        max_words=None,
        max_ellipsis_lines=0.6,
        min_punctuated_lines=None,
        max_short_lines=None,
        max_newlines_per_word=None,
        max_duplicate_lines=0.5,
        max_duplicate_line_characters=0.4,
        max_duplicate_paragraphs=0.5,
    )


def _comments(web: QualityLimits) -> QualityLimits:
    """A few words, spaces left out, emoticons: only what repeats itself or is no language."""
    return _changed(
        QualityLimits(),
        max_mean_word_length=web.max_mean_word_length and 5 * web.max_mean_word_length,
        min_script_letters=0.2,
        min_alphabetic_words=0.3,
        max_top_word=0.6,
        max_policy_lines=0.5,
        max_duplicate_lines=0.6,
        max_duplicate_line_characters=0.6,
        max_duplicate_5gram=0.6,
    )


def _changed(limits: QualityLimits, **changes: float | None) -> QualityLimits:
    return limits.model_copy(update=changes)


def _repeating(web: QualityLimits, factor: float) -> QualityLimits:
    """n-gram limits times the factor."""
    names = [name for name in QualityLimits.model_fields if name.endswith("gram")]
    return _changed(web, **{name: factor * getattr(web, name) for name in names})


def _without_ngrams(web: QualityLimits) -> QualityLimits:
    names = [name for name in QualityLimits.model_fields if name.endswith("gram")]
    return _changed(web, **dict.fromkeys(names))


_PROFILES: dict[str, Callable[[QualityLimits], QualityLimits]] = {
    "web": lambda web: web,
    "encyclopaedia": _encyclopaedia,
    "documentation": _documentation,
    "speech": _speech,
    "comments": _comments,
}


# The commonest words of a language, which any text of some length has: small, closed lists.

# Korean josa and eomi as an eojeol ends in them; one syllable is enough to tell, as the longer ones
# end in one of these (에서, 으로, 부터, 까지, 습니다, 는데, 지만)
KOREAN_ENDINGS = frozenset(
    "은는이가을를에의로도와과만서게께터지며고면나니다요죠까네데야라자음함임됨기한할된될던인일여해아어"
)

# words between spaces
FUNCTION_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        # Gopher's eight, and as many that old and spoken texts have
        "en": "the be to of and that have with a in is it for on was as he his i you not",
        "de": "der die das und in den von zu mit ist des im nicht auf sich für dem ein eine als er",
        "fr": "de la le et les des en un une du est dans que qui pour il au par pas sur à ce ne",
        "es": "de la que el en y a los se del las un por con una su para es no al lo como",
        "it": "di e il la che in a un per è una del non si le con i dei da sono al lo come",
        "pt": "de a o que e do da em um para com não uma os no se na por as dos como mas ao",
        "nl": "de het een van en in is dat op te voor met zijn die niet aan er om ook als",
        "ru": "в и на с не что по как из от к за для его а он это у до же о или при так",
        "vi": "là và của một được trong các có này đã người cho với không những để khi từ ở thì",
        "ar": "في من على إلى أن مع أو هو عن التي كان بين ما هي بعد هذا هذه لا ذلك الذي كل",
        "hi": "के में है की और से का को एक हैं पर ने कि यह नहीं भी ही तो जो हो इस कर था लिए वह",
    }.items()
}

# written without spaces, or joined to other words: as they stand in the text
FUNCTION_STRINGS: dict[str, tuple[str, ...]] = {
    "ko": tuple("의이는에을은를가다고한하로도지"),  # FineWeb-2: morphemes; they stand inside words
    "ja": tuple("のにをはがでとたてもしれノニヲハ"),
    "zh": (*"的是在和了有不为他也人而由者于之其应与及以可", *"為於與應後"),
}


def num_function_words(text: str, words: set[str], language: str) -> int | None:
    """How many different function words a text has; None for a language without a list.

    `words` are those between spaces, in lower case or as they are written.
    """
    if strings := FUNCTION_STRINGS.get(language):
        return sum(string in text for string in strings)
    if listed := FUNCTION_WORDS.get(language):
        return len(listed & words) or len(listed & {word.lower() for word in words})
    return None


_PUNCTUATION = ".,!?…~\"'”’)]}>」』》;:ㅋㅎㅠㅜ^"


def particle_fraction(words: list[str]) -> float:
    """Share of the Korean words that end in a common josa or eomi."""
    endings = [word.rstrip(_PUNCTUATION)[-1:] for word in words]
    return sum(map(KOREAN_ENDINGS.__contains__, endings)) / (len(words) or 1)
