"""Texts in Korean and English letters that no two draws share."""

from random import Random

SYLLABLES = "가나다라마바사아자차카타파하고노도로모보소오조초코토포호기니디리미비시이지치키티피히"
WORDS = [
    *("harbour", "lantern", "copper", "meadow", "whisper", "granite", "velvet", "thunder"),
    *("orchard", "compass", "ribbon", "saddle", "pepper", "canvas", "marble", "walnut", "feather"),
    *("anchor", "candle", "mirror", "basket", "hollow", "summer", "winter"),
]


def korean(rng: Random, num_words: int) -> str:
    return " ".join("".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(num_words))


def english(rng: Random, num_words: int) -> str:
    return " ".join(rng.choices(WORDS, k=num_words))
