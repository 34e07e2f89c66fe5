"""Text to words, as tokenizer.json freezes it: BERT's cleaning, NFC, the jamo of Korean chat, a cut
at spaces and marks and around characters without a piece. And Korean words to morphemes.

Morphemes only guide the training of the vocabulary; at run time the tokenizer is plain WordPiece.

Each step is one that other ports of `tokenizers` read too. Nearly all text is plain: strings that
these steps would leave as they are. A pattern finds its words ten times faster than normaliser and
pre-tokenizer, which keep track of where each character came from.

What stands in documents for personal data are words that are never split. They are text, not
special tokens: they are masked and predicted like any other, and decoding keeps them. Only
documents hold them; whoever types `<email>` means the same.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Literal, Protocol

from tokenizers import Regex, normalizers, pre_tokenizers

from electrify.config.run import RunConfig

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
        return dict(self.language_cuts).get(language, self.cuts)


# Documents come cleaned (pipeline/rules/hangul.py). A reader's text may be typed in conjoining
# jamo: NFC composes syllables of them but leaves "ᄏᄏ", for which the corpus has "ㅋㅋ".
# To replace these seven, which chat repeats, gives KLUE-NER the span ceiling that replacing all 67
# gives, 0.2 points over none, at no cost that can be seen. All 67 take half as long again as all
# of tokenisation.
_CHAT_JAMO = {
    "\u110f": "ㅋ",
    "\u1112": "ㅎ",
    "\u1103": "ㄷ",
    "\u110b": "ㅇ",
    "\u1172": "ㅠ",
    "\u116e": "ㅜ",
    "\u1173": "ㅡ",
}


@lru_cache(maxsize=2)
def normalizer(lowercase: bool) -> Any:
    """BERT's cleaning, every CJK ideograph between spaces, lower case if asked, NFC, chat's jamo.

    Accents stay: BERT's accent stripping decomposes to NFD, which tears Hangul into jamo. NFC comes
    after what is removed, because that can bring a letter and its accent together.
    """
    bert = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=lowercase
    )
    jamo = [normalizers.Replace(conjoining, letter) for conjoining, letter in _CHAT_JAMO.items()]
    return normalizers.Sequence([bert, normalizers.NFC(), *jamo])


def pre_tokenizer(split_digits: bool = False, isolated: str = "") -> Any:
    """Cuts at whitespace and around every punctuation mark, and around every digit if asked.

    `isolated`: a pattern; what matches it becomes a word of its own, too.
    """
    # what pre_tokenizers.Digits cuts; the JavaScript port of that knows ASCII digits alone
    patterns = [pattern for pattern in (r"\p{N}" if split_digits else "", isolated) if pattern]
    bert = pre_tokenizers.BertPreTokenizer()
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([bert, *splits]) if splits else bert


def is_isolated(character: str, lowercase: bool = False, split_digits: bool = False) -> bool:
    """Whether the character is always a word of its own: punctuation and CJK ideographs."""
    text = normalizer(lowercase).normalize_str(f"a{character}a")
    return len(pre_tokenizer(split_digits).pre_tokenize_str(text)) == 3


def has_hangul(word: str) -> bool:
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


# Characters that the normaliser leaves as they are, alone and in any order (none of them combines
# with another under NFC), and that are letters to the pre-tokenizer: Arabic, Devanagari without
# nukta, boxes and symbols, kana with the marks that repeat one, jamo of the compatibility block,
# Hangul syllables; Latin and Cyrillic.
_CASELESS = (
    "\u0621-\u063a\u0641-\u064a\u0901-\u0939\u093e-\u094d"
    "\u2500-\u2767"
    "\u3005\u3041-\u3096\u309d\u309e\u30a1-\u30fa\u30fc-\u30fe\u3131-\u3163가-힣"
)
_LOWER = "a-z\u00df-\u00f6\u00f8-\u00ff\u0430-\u044f"
_MIXED = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0100-\u017f\u1ea0-\u1ef9\u0410-\u042f"
# Those that it leaves as they are and that always stand alone. "<" is one, though "<email>" may be
# a token: the encoder looks for such tokens first.
_ALONE = (
    r"!-/:-@\[-`{-~·‘’“”…–—―«»、。・「」『』【】《》〈〉，！？：；（）［］＃／،؟।॥"
    + "\u4e00-\u9fff"
)


class PlainWords:
    """Tells plain strings from others, and cuts them."""

    def __init__(self, lowercase: bool, split_digits: bool) -> None:
        letters = _CASELESS + _LOWER + ("" if lowercase else _MIXED)
        letters, alone = (letters, _ALONE + "0-9") if split_digits else (letters + "0-9", _ALONE)
        # one word; words and marks without a space between them; the words and marks of those
        self.is_word = re.compile(f"[{letters}]++").fullmatch
        self.is_plain = re.compile(f"[{letters}{alone}]++").fullmatch
        self.words = re.compile(f"[{letters}]++|[{alone}]").findall
        # the same for Arrow, whose RE2 has no possessive quantifiers and needs none
        self.word_re2 = f"^[{letters}]+$"
        self.plain_re2 = f"^[{letters}{alone}]+$"
        self.mark_re2 = f"[{alone}]"


MASK_KINDS = ("email", "phone", "rrn", "card", "business", "account", "ip", "plate")
MASK_WORDS = tuple(f"<{kind}>" for kind in MASK_KINDS)


def mask_words_of(config: RunConfig) -> tuple[str, ...]:
    """Those that the run's documents can hold: all, or none if no language's are masked."""
    languages = {source.language for source in config.clean.sources}
    masked = any(config.clean.rules_for(language).mask_pii for language in languages)
    return MASK_WORDS if masked else ()
