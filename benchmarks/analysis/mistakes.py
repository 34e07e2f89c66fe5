"""Mistakes planted in Korean sentences, and who finds them: the two networks, and how rare pieces
are in a corpus.

Each kind of mistake lists all places of a sentence where it could be made; one of them is drawn. A
word is as suspicious as its most suspicious piece, a mistake as the most suspicious word that it
touches. The others are the words of the same sentence that it does not touch. All detectors have
the same threshold in this sense: the fraction of words of right sentences above it.
"""

import random
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.analysis.inspect import (
    bundled_sentences,
    bundled_threshold,
    examine,
    open_discriminator,
)
from benchmarks.analysis.korean import (
    VOWELS,
    KoreanSentence,
    Morpheme,
    Span,
    analyse,
    has_final_consonant,
    is_syllable,
    mistyped,
    word_spans,
)
from benchmarks.analysis.reader import Reader, TokenizedText
from benchmarks.metrics.weighted import Floats, auc, recall_above, threshold_at
from benchmarks.statistics.uncertainty import Estimate, estimate, resample_scores
from electrify.storage.encodings import decode_file
from electrify.storage.files import read_toml
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log

FALSE_ALARMS = 0.01
AUC, RECALL = "auc", "recall at 1%"
KINDS: Mapping[str, str] = read_toml(Path(__file__).with_name("texts.toml"))["kinds"]  # and titles
_ERRORS = read_toml(Path(__file__).with_name("errors.toml"))
_DOCUMENTS = 1000  # tokenised at once
# of texts: the suspicion of each piece, (N,) of each
PieceScores = Callable[[Sequence[TokenizedText]], list[Floats]]


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


def plant(sentence: KoreanSentence, edit: Edit) -> Planted:
    old = sentence.text
    left = old.rfind(" ", 0, edit.start) + 1
    right = old.find(" ", edit.end)
    right = len(old) if right < 0 else right
    text = old[: edit.start] + edit.new + old[edit.end :]
    return Planted(edit.rule, old, text, (left, right), (left, right + len(text) - len(old)))


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
                planted[pair[0].text] = plant(*pair)
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


# Detectors.


def detectors_of(reader: Reader, corpus: Sequence[Path]) -> dict[str, PieceScores]:
    """By name: those of the networks that are there, and rarity in the files of `corpus`."""
    detectors: dict[str, PieceScores] = {}
    if reader.discriminator is not None:
        detectors["discriminator"] = lambda texts: reader.replaced_logits([t.ids for t in texts])
    if reader.generator is not None:
        detectors["generator"] = lambda texts: reader.pseudo_likelihood([t.ids for t in texts])
    if not detectors:
        raise UserError(
            f"{reader.source.path} has neither a discriminator (ElectraForPreTraining) nor a "
            "masked language model (...ForMaskedLM); give a model with one of these heads"
        )
    if corpus:
        rarity = _rarities(reader, corpus)
        detectors["rarity"] = lambda texts: [rarity[text.ids] for text in texts]
    return detectors


def _rarities(reader: Reader, paths: Sequence[Path]) -> Floats:
    """-log of the fraction of each id in documents, with one more of each: (ids,).

    Documents are in Parquet with a column `text`, or one text a line.
    """
    tokenizer = reader.source.tokenizer
    counts = np.ones(len(tokenizer))
    with Progress("corpus", None, "documents") as progress:
        for path in paths:
            documents = _documents(path)
            while texts := list(islice(documents, _DOCUMENTS)):
                ids = np.concatenate(tokenizer(texts, verbose=False)["input_ids"])
                counts += np.bincount(ids, minlength=len(counts))
                progress.update(len(texts))
    if counts.sum() == len(counts):
        raise UserError("no piece to count: give a corpus with text in it")
    return np.asarray(-np.log(counts / counts.sum()))


def _documents(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise UserError(f"no corpus file {path}; give documents-*.parquet of a run's clean folder")
    if path.suffix == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            if "text" not in file.schema_arrow.names:
                raise UserError(f"{path} has no column text; give a file that has its texts there")
            for batch in file.iter_batches(_DOCUMENTS, columns=["text"]):
                yield from batch.column("text").to_pylist()
    else:
        text, _ = decode_file(path.read_bytes(), path)
        yield from filter(str.strip, text.split("\n"))


@dataclass(frozen=True)
class MistakeFigure:
    """One figure with its interval over sentences."""

    kind: str
    num_sentences: int
    detector: str
    metric: str
    estimate: Estimate


def mistake_figures(
    reader: Reader, detectors: Mapping[str, PieceScores], planted: Mapping[str, Sequence[Planted]]
) -> list[MistakeFigure]:
    sentences = [p for of_kind in planted.values() for p in of_kind]
    texts = list(dict.fromkeys(text for p in sentences for text in (p.clean, p.text)))
    cut = reader.cut(texts)
    words = {}
    for name, detector in detectors.items():
        log(f"probe: {name} on {len(texts):,} sentences with and without mistakes")
        words[name] = dict(zip(texts, map(by_word, cut, detector(cut)), strict=True))
    return figures_of(planted, words)


def by_word(text: TokenizedText, scores: Floats) -> Floats:
    """The highest score of each word's pieces; the lowest of all for a word without one.

    A piece belongs to the word of its last character: the first one may be the space before it.
    """
    spans = word_spans(text.text)
    words = np.full(len(spans), scores.min())
    starts = [start for start, _ in spans]
    for (start, end), score in zip(text.spans, scores, strict=True):
        number = bisect_right(starts, end - 1) - 1
        if number >= 0 and start < end <= spans[number][1]:
            words[number] = max(words[number], score)
    return words


def figures_of(
    planted: Mapping[str, Sequence[Planted]], words: Mapping[str, Mapping[str, Floats]]
) -> list[MistakeFigure]:
    """Every figure; `planted` is by kind, `words`, the suspicion of each word, by detector and
    text."""
    right = dict.fromkeys(p.clean for of_kind in planted.values() for p in of_kind)
    figures = []
    for detector, by_text in words.items():
        limit = threshold_at(np.concatenate([by_text[text] for text in right]), FALSE_ALARMS)
        for kind, mistakes in planted.items():
            count, ids = len(mistakes), "\n".join(mistake.text for mistake in mistakes)
            touched = [
                [
                    n
                    for n, (start, end) in enumerate(word_spans(m.text))
                    if start < m.after[1] and end > m.after[0]
                ]
                for m in mistakes
            ]
            scores = [by_text[mistake.text] for mistake in mistakes]
            wrong = np.array([of[at].max() for of, at in zip(scores, touched, strict=True)])
            others = [np.delete(of, at) for of, at in zip(scores, touched, strict=True)]
            owners = np.repeat(np.arange(count), [*map(len, others)])
            for metric, score in (
                (AUC, auc(wrong, np.concatenate(others), owners)),
                (RECALL, recall_above(wrong, limit)),
            ):
                value = float(score(np.ones((1, count)))[0])
                draws = resample_scores(ids, count, {0: score})
                interval = estimate({0: value}, draws, (0.0, 1.0))
                figures.append(MistakeFigure(kind, count, detector, metric, interval))
    return figures


# What `electrify run` says of its discriminator.

_SCRIPTS = {"ko": "Hangul", "en": "Latin"}  # of the bundled sentences
_SHOWN = {"particle-form": "wrong forms of particles", "exchanged-word": "exchanged words"}


def marked_lines(model: str, language: str) -> list[str]:
    """What `electrify inspect` marks: lines for a terminal; none for a language without bundled
    sentences.

    The first says from which probability on a word is marked. In Korean two kinds of mistake
    follow, of which a discriminator finds one, and a sentence of the more frequent outcome.
    """
    if language not in _SCRIPTS:
        return []
    script = _SCRIPTS[language]
    reader, sentences = open_discriminator(model, None), bundled_sentences()[script]
    threshold = bundled_threshold(reader, script)
    lines = [f"electrify inspect marks a word above {threshold}"]
    analysed = analyse(sentences) if language == "ko" else []
    words = words_by_form(analysed)
    for kind, title in _SHOWN.items() if analysed else ():
        outcomes: dict[bool, list[str]] = {True: [], False: []}  # a text by whether it is marked
        for planted in plant_evenly(kind, analysed, words, len(analysed), seed=0):
            finding = examine(reader, planted.text, threshold, has_attributions=False)
            start, stop = planted.after
            marked_words = [finding.reading.words[number] for number in finding.marked]
            is_marked = any(word.start < stop and start < word.stop for word in marked_words)
            right, wrong = planted.clean[slice(*planted.before)], planted.text[start:stop]
            example = f"{wrong} for {right} is{'' if is_marked else ' not'}"
            outcomes[is_marked].append(f"{example}:\n    {finding.bracketed}")
        marked, missed = len(outcomes[True]), len(outcomes[False])
        shown = outcomes[marked > missed][0]
        lines += f"{marked} of {marked + missed} {title} are marked; {shown}".split("\n")
    return lines
