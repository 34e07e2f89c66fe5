"""Mistakes planted in plain Korean sentences, and whether `electrify inspect` marks them: the lines
that `electrify run` and `demo` print.

Each kind of mistake lists all places of a sentence where it could be made; one of them is drawn.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.analysis.inspect import SENTENCES, bundled_threshold, examine
from benchmarks.analysis.korean import (
    KoreanSentence,
    Span,
    analyse,
    has_final_consonant,
    is_syllable,
    word_spans,
)
from benchmarks.analysis.reader import open_reader

KINDS = {"particle-form": "wrong forms of particles", "exchanged-word": "exchanged words"}
# two forms of one particle: after a final consonant, after a vowel
_PARTICLES = (
    *(("은", "는"), ("이", "가"), ("을", "를"), ("과", "와")),
    *(("으로", "로"), ("이나", "나"), ("이랑", "랑")),
)
_EXCHANGED = ("NNG", "NNP", "MAG")  # parts of speech (Sejong tags) of exchanged words
_SCRIPTS = {"ko": "Hangul", "en": "Latin"}  # of the bundled sentences


class Mistake(NamedTuple):
    """What could be wrong in a sentence: these characters become `new`; `rule` names it."""

    sentence: KoreanSentence
    start: int
    end: int
    new: str
    rule: str

    @property
    def text(self) -> str:
        """The sentence with the mistake."""
        return self.sentence.text[: self.start] + self.new + self.sentence.text[self.end :]

    @property
    def words(self) -> tuple[Span, Span]:
        """Spans of the words that it touches in the right sentence, and of what it leaves."""
        old = self.sentence.text
        left, right = old.rfind(" ", 0, self.start) + 1, old.find(" ", self.end)
        right = len(old) if right < 0 else right
        return (left, right), (left, right + len(self.text) - len(old))


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


def mistakes_in(
    kind: str, sentence: KoreanSentence, words: Words, draw: random.Random
) -> Iterator[Mistake]:
    return _exchanges(sentence, words, draw) if kind == "exchanged-word" else _particles(sentence)


def plant_evenly(kind: str, sentences: Sequence[KoreanSentence], words: Words) -> list[Mistake]:
    """One mistake of the kind in each sentence that can have one. Rules take turns, so that
    frequent ones leave room for rare ones."""
    draw = random.Random(f"{kind} 0")
    by_rule: dict[str, list[Mistake]] = {}
    for sentence in draw.sample(sentences, len(sentences)):
        of_sentence: dict[str, list[Mistake]] = {}
        for mistake in mistakes_in(kind, sentence, words, draw):
            of_sentence.setdefault(mistake.rule, []).append(mistake)
        for rule, possible in of_sentence.items():
            by_rule.setdefault(rule, []).append(draw.choice(possible))
    queues = [iter(by_rule[rule]) for rule in sorted(by_rule)]
    planted: dict[str, Mistake] = {}
    while queues:
        for queue in list(queues):
            first = next((each for each in queue if each.sentence.text not in planted), None)
            if first is None:
                queues.remove(queue)
            else:
                planted[first.sentence.text] = first
    return list(planted.values())


def _particles(sentence: KoreanSentence) -> Iterator[Mistake]:
    """The other form of a particle: 은 for 는, and the reverse."""
    others = {right: wrong for pair in _PARTICLES for right, wrong in (pair, reversed(pair))}
    text = sentence.text
    for m in sentence.morphemes:
        is_particle = m.tag.startswith("J") and text[m.start : m.end] == m.form in others
        if is_particle and m.start and is_syllable(text[m.start - 1]):
            other = others[m.form]
            yield Mistake(sentence, m.start, m.end, other, f"{m.form}→{other}")


def _exchanges(sentence: KoreanSentence, words: Words, draw: random.Random) -> Iterator[Mistake]:
    """Another word of the same part of speech, length and final sound."""
    for word in _exchangeable(sentence):
        other = draw.choice(words[_form(word)])
        if other not in sentence.text:
            yield Mistake(sentence, word.start, word.end, other, word.tag)


def _exchangeable(sentence: KoreanSentence) -> Iterator[Any]:
    """Morphemes that are a whole word, but for particles."""
    words = dict(word_spans(sentence.text))
    particles = {m.start for m in sentence.morphemes if m.tag.startswith("J")}
    for m in sentence.morphemes:
        is_whole = m.start in words and (m.end == words[m.start] or m.end in particles)
        is_plain = sentence.text[m.start : m.end] == m.form and all(map(is_syllable, m.form))
        if m.tag in _EXCHANGED and is_whole and is_plain and m.form:
            yield m


def _form(word: Any) -> tuple[str, int, bool]:
    return word.tag, len(word.form), has_final_consonant(word.form)


def marked_lines(model: str, language: str) -> list[str]:
    """What `electrify inspect` marks: lines for a terminal; none for a language without bundled
    sentences.

    The first says from which probability on a word is marked. In Korean two kinds of mistake
    follow, of which a discriminator finds one, and a sentence of the more frequent outcome.
    """
    if language not in _SCRIPTS:
        return []
    script = _SCRIPTS[language]
    reader, sentences = open_reader(model), SENTENCES[script]
    threshold = bundled_threshold(reader, script)
    lines = [f"electrify inspect marks a word above {threshold}"]
    analysed = analyse(sentences) if language == "ko" else []
    words = words_by_form(analysed)
    for kind, title in KINDS.items() if analysed else ():
        outcomes: dict[bool, list[str]] = {True: [], False: []}  # a text by whether it is marked
        for mistake in plant_evenly(kind, analysed, words):
            finding = examine(reader, mistake.text, threshold, has_attributions=False)
            before, (start, stop) = mistake.words
            marked_words = [finding.reading.words[number] for number in finding.marked]
            is_marked = any(word.start < stop and start < word.stop for word in marked_words)
            right, wrong = mistake.sentence.text[slice(*before)], mistake.text[start:stop]
            example = f"{wrong} for {right} is{'' if is_marked else ' not'}"
            outcomes[is_marked].append(f"{example}:\n    {finding.bracketed}")
        marked, missed = len(outcomes[True]), len(outcomes[False])
        shown = outcomes[marked > missed][0]
        lines += f"{marked} of {marked + missed} {title} are marked; {shown}".split("\n")
    return lines
