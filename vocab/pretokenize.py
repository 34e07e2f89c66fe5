"""Text to words, as the finished tokenizer cuts them, and Korean words to morphemes.

Morphemes only guide the training of the vocabulary; at run time the tokenizer is plain WordPiece.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Protocol

from tokenizers import normalizers, pre_tokenizers

MAX_WORD_CHARACTERS = 100  # a longer word is [UNK] at run time, as in BERT
_KIWI_BATCH = 20_000  # words; Kiwi spreads one list over its threads


def normalizer(lowercase: bool) -> Any:
    """Control characters out, every CJK ideograph between spaces, lower case if asked, then NFC.

    Accents stay: BERT's accent stripping decomposes to NFD, which tears Hangul into jamo. NFC goes
    last because taking out a control character can bring a letter and its accent together.
    """
    bert = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=lowercase
    )
    return normalizers.Sequence([bert, normalizers.NFC()])


def pre_tokenizer() -> Any:
    """Cuts at whitespace and around every punctuation mark."""
    return pre_tokenizers.BertPreTokenizer()


def count_words(texts: Iterable[str], lowercase: bool) -> Counter[str]:
    """Words of the texts with their counts, without those too long for the tokenizer.

    Only distinct whitespace-separated strings are pretokenised: on 24 MB of Korean that takes
    1.6 s where every occurrence would take some 6 s; normalising takes another 1.6 s.
    """
    normalize, cut = normalizer(lowercase).normalize_str, pre_tokenizer().pre_tokenize_str
    strings: Counter[str] = Counter()
    for text in texts:
        strings.update(normalize(text).split())
    words: Counter[str] = Counter()
    for string, count in strings.items():
        for word, _ in cut(string):
            if len(word) <= MAX_WORD_CHARACTERS:
                words[word] += count
    return words


def is_isolated(character: str, lowercase: bool = False) -> bool:
    """Whether the character is always a word of its own: punctuation and CJK ideographs."""
    text = normalizer(lowercase).normalize_str(f"a{character}a")
    return len(pre_tokenizer().pre_tokenize_str(text)) == 3


def has_hangul(word: str) -> bool:
    """Whether a Hangul syllable is in the word."""
    return any("가" <= character <= "힣" for character in word)


class Morpheme(Protocol):
    """What a Kiwi token says about the surface: code points [start, start + len) of the word."""

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


def morphemes(word: str) -> list[str]:
    """One NFC word as surface pieces: stem | particles | endings; without Hangul, as it is."""
    return morphemes_of([word])[0] if word else []


def morphemes_of(words: Sequence[str]) -> list[list[str]]:
    """`morphemes` of many distinct words, on all cores: some 8,000 words a second and core."""
    pieces = iter(_analyse([word for word in words if has_hangul(word)]))
    return [next(pieces) if has_hangul(word) else [word] for word in words]


def _analyse(korean: Sequence[str]) -> list[list[str]]:
    pieces: list[list[str]] = []
    remaining = iter(korean)
    while batch := list(islice(remaining, _KIWI_BATCH)):
        found = _kiwi().tokenize(batch)
        pieces += [surface_pieces(word, tokens) for word, tokens in zip(batch, found, strict=True)]
    return pieces


@lru_cache(maxsize=1)
def _kiwi() -> Any:
    # Once a process: 2 s and 0.5 GB. The import is here because only Korean needs it.
    from kiwipiepy import Kiwi

    return Kiwi(num_workers=-1)  # -1: all cores (0 has meant one thread since 0.21)
