"""One mistake planted in a sentence, and where it stands.

Each kind of mistake lists all places of a sentence where it could be made. `plant` draws one.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.korean.hangul import VOWELS, has_final_consonant, is_syllable, mistyped
from benchmarks.korean.morphemes import Morpheme, Sentence, Span, word_spans
from electrify.storage.files import read_toml

_ERRORS = read_toml(Path(__file__).with_name("errors.toml"))
_HOMOPHONES = [
    (rule, re.compile(pattern), rule.split("→")[1])
    for rule, pattern in _ERRORS["homophone"].items()
]


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


def words_by_form(sentences: Sequence[Sentence]) -> Words:
    """Every word that may be exchanged, as often as it occurs.

    They are keyed by part of speech, number of syllables and whether the last one ends in a
    consonant: words with the same key take the same forms of particles.
    """
    found: dict[tuple[str, int, bool], list[str]] = {}
    for sentence in sentences:
        for word in _exchangeable(sentence):
            found.setdefault(_form(word), []).append(word.form)
    return found


def edits(kind: str, sentence: Sentence, words: Words, draw: random.Random) -> list[Edit]:
    """Every mistake of the kind that the sentence has room for."""
    if kind == "exchanged-word":
        return list(_exchanged(sentence, words, draw))
    return list(_KINDS[kind](sentence))


def plant(kind: str, sentence: Sentence, edit: Edit) -> Planted:
    """Make the mistake."""
    old = sentence.text
    left = old.rfind(" ", 0, edit.start) + 1
    right = old.find(" ", edit.end)
    right = len(old) if right < 0 else right
    text = old[: edit.start] + edit.new + old[edit.end :]
    return Planted(kind, edit.rule, old, text, (left, right), (left, right + len(text) - len(old)))


def plant_evenly(
    kind: str, sentences: Sequence[Sentence], words: Words, num_sentences: int, seed: int
) -> list[Planted]:
    """A mistake of the kind in each of `num_sentences` sentences, or of fewer if there are not so
    many. Rules take turns, so that frequent ones leave room for rare ones."""
    draw = random.Random(f"{kind} {seed}")
    by_rule: dict[str, list[tuple[Sentence, Edit]]] = {}
    for sentence in draw.sample(sentences, len(sentences)):
        of_rule: dict[str, list[Edit]] = {}
        for edit in edits(kind, sentence, words, draw):
            of_rule.setdefault(edit.rule, []).append(edit)
        for rule, found in of_rule.items():
            by_rule.setdefault(rule, []).append((sentence, draw.choice(found)))
    queues = [iter(by_rule[rule]) for rule in sorted(by_rule)]
    taken: dict[str, Planted] = {}
    while queues and len(taken) < num_sentences:
        for queue in list(queues):
            free = ((s, edit) for s, edit in queue if s.text not in taken)
            if (found_next := next(free, None)) is None:
                queues.remove(queue)
            elif len(taken) < num_sentences:
                taken[found_next[0].text] = plant(kind, *found_next)
    return list(taken.values())


def _particle_forms(sentence: Sentence) -> Iterator[Edit]:
    """은 for 는 and the like: the other one of two forms that the final consonant chooses."""
    return _other_particles(sentence, _ERRORS["particle-form"])


def _particle_choices(sentence: Sentence) -> Iterator[Edit]:
    """에 for 에서 and the reverse."""
    return _other_particles(sentence, _ERRORS["particle-choice"])


def _other_particles(sentence: Sentence, pairs: Sequence[Sequence[str]]) -> Iterator[Edit]:
    others = {right: wrong for pair in pairs for right, wrong in (pair, reversed(pair))}
    text = sentence.text
    for form, tag, start, end in sentence.morphemes:
        is_particle = tag.startswith("J") and text[start:end] == form and form in others
        if is_particle and start and is_syllable(text[start - 1]):
            yield Edit(start, end, others[form], f"{form}→{others[form]}")


def _missing_spaces(sentence: Sentence) -> Iterator[Edit]:
    """No space after a particle. After nouns and verbs the rules allow some words without one."""
    ends = {m.end for m in sentence.morphemes if m.tag.startswith("J")}
    for _, end in word_spans(sentence.text)[:-1]:
        if end in ends:
            yield Edit(end, end + 1, "", "missing")


def _added_spaces(sentence: Sentence) -> Iterator[Edit]:
    """A space before a particle."""
    text = sentence.text
    for form, tag, start, end in sentence.morphemes:
        is_apart = start and text[start - 1] != " " and text[start:end] == form
        if tag.startswith("J") and is_apart:
            yield Edit(start, start, " ", "added")


def _homophones(sentence: Sentence) -> Iterator[Edit]:
    for rule, pattern, wrong in _HOMOPHONES:
        for match in pattern.finditer(sentence.text):
            yield Edit(match.start(), match.end(), wrong, rule)


def _typos(sentence: Sentence) -> Iterator[Edit]:
    """A letter for the one beside it on the keyboard."""
    for place, character in enumerate(sentence.text):
        for letter, _, typed in mistyped(character) if is_syllable(character) else ():
            rule = "vowel" if letter in VOWELS else "consonant"
            yield Edit(place, place + 1, typed, rule)


def _exchanged(sentence: Sentence, words: Words, draw: random.Random) -> Iterator[Edit]:
    """Another word of the same part of speech, length and final sound."""
    for word in _exchangeable(sentence):
        other = draw.choice(words[_form(word)])
        if other not in sentence.text:
            yield Edit(word.start, word.end, other, word.tag)


def _exchangeable(sentence: Sentence) -> Iterator[Morpheme]:
    """Morphemes that are a whole word, but for particles."""
    borders = dict(word_spans(sentence.text))
    particles = {m.start for m in sentence.morphemes if m.tag.startswith("J")}
    for morpheme in sentence.morphemes:
        form, tag, start, end = morpheme
        is_whole = start in borders and (end == borders[start] or end in particles)
        is_plain = sentence.text[start:end] == form and all(map(is_syllable, form))
        if tag in _ERRORS["exchanged-word"] and is_whole and is_plain and form:
            yield morpheme


def _form(word: Morpheme) -> tuple[str, int, bool]:
    return word.tag, len(word.form), has_final_consonant(word.form)


_KINDS: Mapping[str, Callable[[Sentence], Iterator[Edit]]] = {
    "particle-form": _particle_forms,
    "particle-choice": _particle_choices,
    "missing-space": _missing_spaces,
    "added-space": _added_spaces,
    "homophone": _homophones,
    "keyboard": _typos,
}
KINDS = (*_KINDS, "exchanged-word")
