"""Text to words, as the finished tokenizer cuts them, and Korean words to morphemes.

Morphemes only guide the training of the vocabulary; at run time the tokenizer is plain WordPiece.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Literal, Protocol

from tokenizers import pre_tokenizers

from vocab.normalizer import normalizer as normalizer

MAX_WORD_CHARACTERS = 100  # a longer word is [UNK] at run time, as in BERT
# Between the parts of a word that no piece may cross. Never in a word itself: the normaliser takes
# control characters out.
CUT = "\x1f"
_KIWI_BATCH = 20_000  # words; Kiwi spreads one list over its threads

# Where a word is cut for training. `none`: nowhere. `particles`: before particles and the copula.
# `nominal`: where a nominal ends, that is before particles, verbs, endings, suffixes and dependent
# nouns; verbs stay whole with their endings. `all`: at every morpheme.
Cuts = Literal["none", "particles", "nominal", "all"]


@dataclass(frozen=True)
class WordRules:
    """How text becomes words, and words parts."""

    lowercase: bool = False
    split_digits: bool = False  # every digit a word of its own
    cuts: Cuts = "none"
    language_cuts: tuple[tuple[str, Cuts], ...] = ()  # where a language differs

    def cuts_of(self, language: str) -> Cuts:
        """Where words of the language are cut."""
        return dict(self.language_cuts).get(language, self.cuts)


def pre_tokenizer(split_digits: bool = False) -> Any:
    """Cuts at whitespace and around every punctuation mark, and around every digit if asked."""
    bert = pre_tokenizers.BertPreTokenizer()
    if not split_digits:
        return bert
    return pre_tokenizers.Sequence([bert, pre_tokenizers.Digits(individual_digits=True)])


def is_isolated(character: str, lowercase: bool = False, split_digits: bool = False) -> bool:
    """Whether the character is always a word of its own: punctuation and CJK ideographs."""
    text = normalizer(lowercase).normalize_str(f"a{character}a")
    return len(pre_tokenizer(split_digits).pre_tokenize_str(text)) == 3


def has_hangul(word: str) -> bool:
    """Whether a Hangul syllable is in the word."""
    return any("가" <= character <= "힣" for character in word)


class Morpheme(Protocol):
    """A Kiwi token: its part of speech, and code points [start, start + len) of the word."""

    tag: str
    start: int
    len: int


def surface_pieces(word: str, morphemes: Iterable[Morpheme]) -> list[str]:
    """The word cut where a morpheme ends; the pieces always join to the word.

    Contraction lets morphemes share a syllable (했다 = 하 + 었 + 다). A shared syllable stays with
    the morpheme that comes first: the stem is whole and the ending loses its head, as in 했|다,
    봤|어요, 갑|니다.
    """
    cuts, reached = {0, len(word)}, 0
    for morpheme in morphemes:
        if morpheme.start > reached:  # characters that Kiwi passed over
            cuts.add(morpheme.start)
        reached = max(reached, morpheme.start + morpheme.len)
        cuts.add(reached)
    ends = sorted(cut for cut in cuts if cut <= len(word))
    return [word[start:stop] for start, stop in pairwise(ends)]


def nominal_pieces(word: str, morphemes: Iterable[Morpheme], cuts: Cuts) -> list[str]:
    """The word cut only where `cuts`, `particles` or `nominal`, says; the pieces join to it.

    A morpheme that shares a syllable with the one before cannot be cut off.
    """
    borders, reached, previous = {0, len(word)}, 0, ""
    for morpheme in morphemes:
        if reached <= morpheme.start < len(word) and _is_border(previous, morpheme.tag, cuts):
            borders.add(morpheme.start)
        reached = max(reached, morpheme.start + morpheme.len)
        previous = morpheme.tag
    return [word[start:stop] for start, stop in pairwise(sorted(borders))]


def _is_border(previous: str, tag: str, cuts: Cuts) -> bool:
    # Sejong tags: J particles, VCP copula, N nouns, X affixes, S and W symbols, E endings
    if cuts == "particles":
        return tag.startswith(("J", "VCP"))
    if tag.startswith(("XSV", "XSA", "XSN", "NNB")):
        return True
    nominal = previous.startswith(("N", "S", "W", "X"))
    nominal = nominal and not previous.startswith(("XSV", "XSA"))
    return nominal and tag.startswith(("J", "V", "E"))


def morphemes_of(words: Sequence[str], cuts: Cuts = "all", num_threads: int = 1) -> list[list[str]]:
    """Many distinct words in pieces: some 14,000 words a second and thread."""
    if cuts == "none":
        return [[word] for word in words]
    pieces = iter(_analyse([word for word in words if has_hangul(word)], cuts, num_threads))
    return [next(pieces) if has_hangul(word) else [word] for word in words]


def _analyse(korean: Sequence[str], cuts: Cuts, num_threads: int) -> list[list[str]]:
    pieces: list[list[str]] = []
    remaining = iter(korean)
    while batch := list(islice(remaining, _KIWI_BATCH)):
        for word, tokens in zip(batch, _kiwi(num_threads).tokenize(batch), strict=True):
            if cuts == "all":
                pieces.append(surface_pieces(word, tokens))
            else:
                pieces.append(nominal_pieces(word, tokens, cuts))
    return pieces


@lru_cache(maxsize=1)
def _kiwi(num_threads: int) -> Any:
    # Once a process: 2 s and 0.5 GB. The import is here because only Korean needs it.
    from kiwipiepy import Kiwi

    return Kiwi(num_workers=num_threads)
