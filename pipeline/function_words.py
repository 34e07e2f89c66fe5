"""The commonest words of a language, which any text of some length has: small, closed lists."""

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
