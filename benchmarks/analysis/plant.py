"""One mistake planted in a Korean sentence, and where it stands.

Each kind of mistake lists all places of a sentence where it could be made; one of them is drawn.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.analysis.korean import (
    VOWELS,
    KoreanSentence,
    Morpheme,
    Span,
    has_final_consonant,
    is_syllable,
    mistyped,
    word_spans,
)
from electrify.storage.files import read_toml

_ERRORS = read_toml(Path(__file__).with_name("errors.toml"))
KINDS: Mapping[str, str] = read_toml(Path(__file__).with_name("texts.toml"))["kinds"]  # and titles


class Edit(NamedTuple):
    """A mistake that could be made: these characters become `new`; `rule` names it."""

    start: int
    end: int
    new: str
    rule: str


@dataclass(frozen=True)
class Planted:
    """A sentence with one mistake.

    `before` spans the words that the mistake touches in the right sentence, `after` those that it
    leaves. What stands outside of them is equal in both.
    """

    kind: str
    rule: str
    clean: str
    text: str
    before: Span
    after: Span


Words = Mapping[tuple[str, int, bool], Sequence[str]]


def words_by_form(sentences: Sequence[KoreanSentence]) -> Words:
    """Every word that may be exchanged, as often as it occurs.

    They are keyed by part of speech, number of syllables and whether the last one ends in a
    consonant: words with the same key take the same forms of particles.
    """
    words: dict[tuple[str, int, bool], list[str]] = {}
    for sentence in sentences:
        for word in _exchangeable(sentence):
            words.setdefault(_form(word), []).append(word.form)
    return words


def edits(kind: str, sentence: KoreanSentence, words: Words, draw: random.Random) -> Iterator[Edit]:
    """Every mistake of the kind that the sentence has room for."""
    return _exchanged(sentence, words, draw) if kind == "exchanged-word" else _EDITS[kind](sentence)


def plant(kind: str, sentence: KoreanSentence, edit: Edit) -> Planted:
    old = sentence.text
    left = old.rfind(" ", 0, edit.start) + 1
    right = old.find(" ", edit.end)
    right = len(old) if right < 0 else right
    text = old[: edit.start] + edit.new + old[edit.end :]
    return Planted(kind, edit.rule, old, text, (left, right), (left, right + len(text) - len(old)))


def plant_evenly(
    kind: str, sentences: Sequence[KoreanSentence], words: Words, num_sentences: int, seed: int
) -> list[Planted]:
    """A mistake of the kind in each of `num_sentences` sentences, or of fewer if there are not so
    many. Rules take turns, so that frequent ones leave room for rare ones."""
    draw = random.Random(f"{kind} {seed}")
    by_rule: dict[str, list[tuple[KoreanSentence, Edit]]] = {}
    for sentence in draw.sample(sentences, len(sentences)):
        of_sentence: dict[str, list[Edit]] = {}
        for edit in edits(kind, sentence, words, draw):
            of_sentence.setdefault(edit.rule, []).append(edit)
        for rule, possible in of_sentence.items():
            by_rule.setdefault(rule, []).append((sentence, draw.choice(possible)))
    queues = [iter(by_rule[rule]) for rule in sorted(by_rule)]
    planted: dict[str, Planted] = {}
    while queues and len(planted) < num_sentences:
        for queue in list(queues):
            pair = next((pair for pair in queue if pair[0].text not in planted), None)
            if pair is None:
                queues.remove(queue)
            elif len(planted) < num_sentences:
                planted[pair[0].text] = plant(kind, *pair)
    return list(planted.values())


def _other_particles(pairs: Sequence[Sequence[str]], sentence: KoreanSentence) -> Iterator[Edit]:
    """The other particle of a pair: 은 for 는, 에 for 에서, and the reverse."""
    others = {right: wrong for pair in pairs for right, wrong in (pair, reversed(pair))}
    text = sentence.text
    for form, tag, start, end in sentence.morphemes:
        is_particle = tag.startswith("J") and text[start:end] == form and form in others
        if is_particle and start and is_syllable(text[start - 1]):
            yield Edit(start, end, others[form], f"{form}→{others[form]}")


def _missing_spaces(sentence: KoreanSentence) -> Iterator[Edit]:
    """No space after a particle. After nouns and verbs the rules allow some words without one."""
    ends = {m.end for m in sentence.morphemes if m.tag.startswith("J")}
    for _, end in word_spans(sentence.text)[:-1]:
        if end in ends:
            yield Edit(end, end + 1, "", "missing")


def _added_spaces(sentence: KoreanSentence) -> Iterator[Edit]:
    """A space before a particle."""
    text = sentence.text
    for form, tag, start, end in sentence.morphemes:
        if tag.startswith("J") and start and text[start - 1] != " " and text[start:end] == form:
            yield Edit(start, start, " ", "added")


def _homophones(sentence: KoreanSentence) -> Iterator[Edit]:
    for rule, pattern in _ERRORS["homophone"].items():
        for match in re.finditer(pattern, sentence.text):
            yield Edit(match.start(), match.end(), rule.split("→")[1], rule)


def _typos(sentence: KoreanSentence) -> Iterator[Edit]:
    for place, character in enumerate(sentence.text):
        for letter, _, typed in mistyped(character) if is_syllable(character) else ():
            yield Edit(place, place + 1, typed, "vowel" if letter in VOWELS else "consonant")


def _exchanged(sentence: KoreanSentence, words: Words, draw: random.Random) -> Iterator[Edit]:
    """Another word of the same part of speech, length and final sound."""
    for word in _exchangeable(sentence):
        other = draw.choice(words[_form(word)])
        if other not in sentence.text:
            yield Edit(word.start, word.end, other, word.tag)


def _exchangeable(sentence: KoreanSentence) -> Iterator[Morpheme]:
    """Morphemes that are a whole word, but for particles."""
    words = dict(word_spans(sentence.text))
    particles = {m.start for m in sentence.morphemes if m.tag.startswith("J")}
    for morpheme in sentence.morphemes:
        form, tag, start, end = morpheme
        is_whole = start in words and (end == words[start] or end in particles)
        is_plain = sentence.text[start:end] == form and all(map(is_syllable, form))
        if tag in _ERRORS["exchanged-word"] and is_whole and is_plain and form:
            yield morpheme


def _form(word: Morpheme) -> tuple[str, int, bool]:
    return word.tag, len(word.form), has_final_consonant(word.form)


_EDITS: Mapping[str, Callable[[KoreanSentence], Iterator[Edit]]] = {
    "particle-form": partial(_other_particles, _ERRORS["particle-form"]),
    "particle-choice": partial(_other_particles, _ERRORS["particle-choice"]),
    "missing-space": _missing_spaces,
    "added-space": _added_spaces,
    "homophone": _homophones,
    "keyboard": _typos,
}
