"""What probes are asked for: examples with labels, made from kiwi's morphemes by rule.

Beside its label each example has a type. The control task gives all examples of one type the same
label, drawn at random (Hewitt and Liang 2019): who reads it has learnt the type by heart.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.korean.morphemes import Morpheme, Sentence
from benchmarks.proofreading.detectors import Pieces
from electrify.storage.files import read_toml

_LABELS = read_toml(Path(__file__).with_name("labels.toml"))
_FUTURE = ("것", "거")  # of 할 것이다
MEAN = -1  # in place of a piece: the mean over the text's pieces


@dataclass(frozen=True)
class Example:
    """A text, or a piece of it by its position among all pieces (else `MEAN`)."""

    text: str
    piece: int
    label: str
    type: str
    group: str  # examples of one group are learnt from together, or asked together


def examples_of(
    sentences: Sequence[Sentence],
    pieces: Mapping[str, Pieces],
    num_examples: int,
    seed: int,
) -> dict[str, list[Example]]:
    """Examples by property: as many of each label, and at most `num_examples` of a property.

    A property that fewer than two labels have enough examples of is left out.
    """
    draw = random.Random(seed)
    shuffled = draw.sample(sentences, len(sentences))
    candidates = {
        "part of speech": [e for s in shuffled for e in _of_pieces(s, pieces[s.text])],
        "length": _by_length(shuffled),
        "tense": [e for s in shuffled if (e := _by_tense(s))],
        "level of speech": [e for s in shuffled if (e := _by_level(s))],
        "word order": [e for s in shuffled for e in _by_order(s, draw)],
    }
    balanced = {name: _balanced(found, num_examples) for name, found in candidates.items()}
    return {name: found for name, found in balanced.items() if found}


@cache
def part_of_speech(tag: str) -> str | None:
    """Its name in `labels.toml`."""
    names = {
        beginning: name
        for name, beginnings in _LABELS["part-of-speech"].items()
        for beginning in beginnings
        if tag.startswith(beginning)
    }
    return names[max(names, key=len)] if names else None


def parts_of_pieces(sentence: Sentence, pieces: Pieces) -> list[str | None]:
    """The part of speech of the morpheme in which each piece begins; None of special pieces."""
    at: list[str | None] = [None] * len(sentence.text)
    for morpheme in reversed(sentence.morphemes):  # of two in one syllable the first counts
        name = part_of_speech(morpheme.tag)
        at[morpheme.start : morpheme.end] = [name] * (morpheme.end - morpheme.start)
    text = sentence.text
    return [
        at[start + (text[start] == " ")] if word >= 0 else None
        for (start, _), word in zip(pieces.spans, pieces.word_of, strict=True)
    ]


def _of_pieces(sentence: Sentence, pieces: Pieces) -> list[Example]:
    """The type is the piece itself."""
    return [
        Example(sentence.text, place, name, str(pieces.ids[place]), sentence.text)
        for place, name in enumerate(parts_of_pieces(sentence, pieces))
        if name
    ]


def _by_length(sentences: Sequence[Sentence]) -> list[Example]:
    """Quarters of the sentences by their number of words, which is the type."""
    lengths = [sentence.text.count(" ") + 1 for sentence in sentences]
    borders = np.quantile(lengths, (0.25, 0.5, 0.75))
    return [
        Example(s.text, MEAN, f"quarter {np.searchsorted(borders, n) + 1}", str(n), s.text)
        for s, n in zip(sentences, lengths, strict=True)
    ]


def _by_tense(sentence: Sentence) -> Example | None:
    """Past or present, of a sentence with a final ending; the type is the last word."""
    last = _last_word(sentence)
    if not any(m.tag == "EF" for m in last):
        return None
    words = {m.form for m in last if m.tag == "EP"}
    is_future = any(m.tag == "NNB" and m.form in _FUTURE for m in last)
    if is_future or words & set(_LABELS["tense"]["left-out"]):
        return None
    label = "past" if words & set(_LABELS["tense"]["past"]) else "present"
    return Example(sentence.text, MEAN, label, _type(sentence), sentence.text)


def _by_level(sentence: Sentence) -> Example | None:
    """The type is the last word."""
    endings = [m.form for m in _last_word(sentence) if m.tag == "EF"]
    for name, pattern in _LABELS["level"].items() if endings else ():
        if re.fullmatch(pattern, endings[-1]):
            return Example(sentence.text, MEAN, name, _type(sentence), sentence.text)
    return None


def _by_order(sentence: Sentence, draw: random.Random) -> list[Example]:
    """The sentence, and with two neighbouring words exchanged; the type is the last word.

    This is the bigram shift of Conneau et al. (2018). The last word stays, with its full stop.
    """
    words = sentence.text.split(" ")
    place = draw.randrange(len(words) - 2)
    moved = [*words[:place], words[place + 1], words[place], *words[place + 2 :]]
    if moved == words:
        return []
    return [
        Example(text, MEAN, label, _type(sentence), sentence.text)
        for text, label in ((sentence.text, "as it was"), (" ".join(moved), "two words exchanged"))
    ]


def _last_word(sentence: Sentence) -> list[Morpheme]:
    start = sentence.text.rfind(" ") + 1
    return [m for m in sentence.morphemes if m.start >= start]


def _type(sentence: Sentence) -> str:
    return sentence.text.rpartition(" ")[2]


_MIN_OF_LABEL = 30


def _balanced(examples: Sequence[Example], num_examples: int) -> list[Example]:
    """The first of each label; labels with few examples are left out."""
    by_label: dict[str, list[Example]] = {}
    for example in examples:
        by_label.setdefault(example.label, []).append(example)
    enough = {label: found for label, found in by_label.items() if len(found) >= _MIN_OF_LABEL}
    if len(enough) < 2:
        return []
    share = min(num_examples // len(enough), *map(len, enough.values()))
    return [example for label in sorted(enough) for example in enough[label][:share]]
