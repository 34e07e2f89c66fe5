"""Text to words, as tokenizer.json freezes it: BERT's cleaning, NFC, one form of each character, a
cut at spaces and marks and around characters without a piece. And Korean words to morphemes.

Morphemes only guide the training of the vocabulary; at run time the tokenizer is plain WordPiece.

Each step is one that other ports of `tokenizers` read too. Nearly all text is plain: strings that
these steps would leave as they are. A pattern finds its words ten times faster than normaliser and
pre-tokenizer, which keep track of where each character came from.

What stands in documents for personal data are words that are never split. They are text, not
special tokens: they are masked and predicted like any other, and decoding keeps them. Only
documents hold them; whoever types `<email>` means the same.
"""

import os
import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from tokenizers import Regex, normalizers, pre_tokenizers

from electrify.config.run import RunConfig
from pipeline.rules.characters import BLANK_LETTERS, FILLERS, FORM

MAX_WORD_CHARACTERS = 100  # longer words are cut: the model takes quadratic time
# Between the parts of a word that no piece may cross. Never in a word itself: the normaliser takes
# control characters out.
CUT = "\x1f"

# What BERT's cleaning removes, as listed characters: a class of Unicode differs between programs.
# Without vertical tab, form feed and U+0085, which are white space to the pipeline's cleaning, and
# with the noncharacters that it removes.
_REMOVED = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u180e"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\ue000-\uf8ff\ufeff\ufff9-\ufffb\ufffd-\uffff"
    "\U000110bd\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
    "\U000f0000-\U000ffffd\U00100000-\U0010fffd"
)
_BLANKS = BLANK_LETTERS + "\x85"  # white space to the pipeline's cleaning
_VARIES, _NEXT = "\uf8ff", "\ue000"  # private characters, which are removed from the text itself
_MAX_FORMS = 50  # in one insertion: more cost time by the character, fewer by the text


@lru_cache(maxsize=2)
def normalizer(lowercase: bool) -> Any:
    """BERT's cleaning, every CJK ideograph between spaces, lower case if asked, and the one form of
    each character that cleaning gives (pipeline/rules/characters.py).

    White space stays as it is: the pre-tokenizer cuts at all of it. Accents stay: BERT's accent
    stripping decomposes to NFD, which tears Hangul into jamo. NFC comes last, because what is
    removed and a new form can bring a letter and its accent together.
    """
    removed = normalizers.Replace(Regex(f"[{_REMOVED}{FILLERS}]+"), "")
    return normalizers.Sequence([removed, *_forms(), _bert(lowercase), normalizers.NFC()])


def _bert(lowercase: bool) -> Any:
    return normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=lowercase
    )


def _forms() -> list[Any]:
    """Steps that replace each character by its form.

    A `Replace` has one target, so one for each of 110 forms would make tokenisation three times as
    slow. Instead, all forms are inserted behind the character, and all but
    the right one are removed: `Ｂ` becomes `Ｂ` VARIES, then NEXT `A` NEXT `B` NEXT `C`, of which
    `B` stays. `tokenizers` takes what is inserted for a part of the character before it, so
    offsets are right. All steps but the first look for one character and are fast.
    """
    of_form: dict[str, str] = {}
    for character, form in (FORM | dict.fromkeys(_BLANKS, " ")).items():
        of_form[form] = of_form.get(form, "") + character
    steps = [normalizers.Replace(Regex(f"(?<=[{''.join(of_form.values())}])"), _VARIES)]
    wrong = [f"(?:{_NEXT}.)+"]
    for start in range(0, len(of_form), _MAX_FORMS):
        forms = [*of_form][start : start + _MAX_FORMS]
        behind = f"(?<=[{''.join(of_form[form] for form in forms)}]{_VARIES})"
        inserted = _VARIES + "".join(_NEXT + form for form in forms)
        steps.append(normalizers.Replace(Regex(_VARIES + behind), inserted))
        before = (
            f"(?<=[{of_form[form]}]{_VARIES})(?:{_NEXT}.){{{place}}}{_NEXT}"
            for place, form in enumerate(forms)
        )
        wrong.insert(0, f"{behind}(?:{'|'.join(before)})")
    steps.append(normalizers.Replace(Regex("|".join(wrong)), ""))
    steps.append(normalizers.Replace(Regex(f".{_VARIES}"), ""))
    return steps


_LONG = f".{{{MAX_WORD_CHARACTERS}}}"


def pre_tokenizer(isolated: str = _LONG) -> Any:
    """Cuts at whitespace and around every punctuation mark.

    `isolated`: a pattern; what matches it becomes a word of its own, too.
    """
    split = pre_tokenizers.Split(Regex(isolated), "isolated")
    return pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), split])


def is_isolated(character: str, lowercase: bool = False) -> bool:
    """Whether the character, in its form, is always a word of its own: punctuation and CJK
    ideographs."""
    text = _bert(lowercase).normalize_str(f"a{character}a")
    return len(pre_tokenizer().pre_tokenize_str(text)) == 3


def word_pieces(word: str, morphemes: Iterable[Any]) -> list[str]:
    """The word cut where a nominal ends: before particles, verbs, endings, suffixes and dependent
    nouns, by Kiwi's tokens. The pieces always join to the word.

    Verbs stay whole with their endings. An ending that shares a syllable with what is before it
    (했다 = 하 + 었 + 다) is not cut off.
    """
    boundaries, reached, previous = {0, len(word)}, 0, ""
    for morpheme in morphemes:
        if reached <= morpheme.start and _is_boundary(previous, morpheme.tag):
            boundaries.add(morpheme.start)
        reached = max(reached, morpheme.start + morpheme.len)
        previous = morpheme.tag
    ends = sorted(place for place in boundaries if place <= len(word))
    return [word[start:stop] for start, stop in pairwise(ends)]


def _is_boundary(previous: str, tag: str) -> bool:
    # Sejong tags: J particles, V verbs, copula, N nouns, X affixes, S and W symbols, E endings
    if tag.startswith(("XSV", "XSA", "XSN", "NNB")):
        return True
    nominal = previous.startswith(("N", "S", "W", "X"))
    nominal = nominal and not previous.startswith(("XSV", "XSA"))
    return nominal and tag.startswith(("J", "V", "E"))


def morphemes_of(words: Sequence[str], num_threads: int = 1) -> list[list[str]]:
    """Distinct Korean words in pieces: some 14,000 words a second and thread."""
    tokens = _kiwi(num_threads, os.getpid()).tokenize(words) if words else []
    return [word_pieces(*pair) for pair in zip(words, tokens, strict=True)]


@cache  # never freed: threads of a process that forked cannot be joined
def _kiwi(num_threads: int, process_id: int) -> Any:
    # Once a process: 2 s and 0.5 GB. The import is here because only Korean needs it.
    from kiwipiepy import Kiwi

    return Kiwi(num_workers=num_threads)


# Characters that the normaliser leaves as they are, alone and in any order (none of them combines
# with another under NFC), and that are letters to the pre-tokenizer: Arabic, Devanagari without
# nukta, boxes and symbols, kana with the marks that repeat one; Latin and Cyrillic.
_CASELESS = (
    "\u0621-\u063a\u0641-\u064a\u0901-\u0939\u093e-\u094d"
    "\u2500-\u2767"
    "\u3005\u3041-\u3096\u309d\u309e\u30a1-\u30fa\u30fc-\u30fe"
)
_LOWER = "a-z\u00df-\u00f6\u00f8-\u00ff\u0430-\u044f"
_MIXED = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0100-\u017f\u1ea0-\u1ef9\u0410-\u042f"
# Jamo of the compatibility block and syllables
_HANGUL = "\u3131-\u3163가-힣"
# Those that it leaves as they are and that always stand alone. "<" is one, though "<email>" may be
# a token: the encoder looks for such tokens first.
_ALONE = (
    r"!-/:-@\[-`{-~·‘’“”…–—―«»、。「」『』【】《》〈〉،؟।॥・，！？：；（）［］＃／"
    + "\u4e00-\u9fff"
)


class PlainWords:
    """Tells plain strings from others, and cuts them."""

    def __init__(self, lowercase: bool) -> None:
        letters = f"{_CASELESS}{_LOWER}{'' if lowercase else _MIXED}0-9{_HANGUL}"
        # one word; words and marks without a space between them
        self.is_word = re.compile(f"[{letters}]++").fullmatch
        self.is_plain = re.compile(f"[{letters}{_ALONE}]++").fullmatch
        # the same for Arrow, whose RE2 has no possessive quantifiers and needs none; and a mark
        self.word_re2 = f"^[{letters}]+$"
        self.plain_re2 = f"^[{letters}{_ALONE}]+$"
        self.mark_re2 = f"[{_ALONE}]"


MASK_KINDS = ("email", "phone", "rrn", "card", "business", "account", "ip", "plate")
MASK_WORDS = tuple(f"<{kind}>" for kind in MASK_KINDS)


def mask_words_of(config: RunConfig) -> tuple[str, ...]:
    """Those that the run's documents can hold: all, or none if no language's are masked."""
    clean = config.clean
    masked = any(clean.rules_for(language).mask_pii for language in clean.languages)
    return MASK_WORDS if masked else ()
