"""Who finds planted mistakes: the two networks, and two models that count pieces of a corpus.

A word is as suspicious as its most suspicious piece, a mistake as the most suspicious word that it
touches. The others are the words of the same sentence that it does not touch. All detectors have
the same threshold in this sense: the fraction of words of right sentences above it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix

from benchmarks.analysis.inspect import (
    bundled_sentences,
    bundled_threshold,
    examine,
    open_discriminator,
)
from benchmarks.analysis.korean import analyse, word_spans
from benchmarks.analysis.plant import Planted, plant_evenly, words_by_form
from benchmarks.analysis.reader import Ids, Reader, TokenizedText
from benchmarks.metrics.detection import auc, recall_above, threshold_at
from benchmarks.metrics.weighted import Floats
from benchmarks.statistics.uncertainty import Estimate, estimate, resample_scores
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log

FALSE_ALARMS = 0.01
AUC, RECALL = "auc", "recall at 1%"
_DOCUMENTS = 1000  # tokenised at once
_FIRST, _SECOND = slice(None, -1), slice(1, None)  # of the pairs of a text

# of texts: the suspicion of each piece, (N,) of each
PieceScores = Callable[[Sequence[TokenizedText]], list[Floats]]


class Bigrams:
    """Counts of single ids and of pairs of ids in a text: interpolated Kneser-Ney smoothing.

    p(b | a) = max(c(ab) - d, 0) / c(a) + d N(a) / c(a) q(b). N(a) is the number of different ids
    behind a, q(b) the fraction of all different pairs that end in b, with one more pair for each
    id. The discount d is n1 / (n1 + 2 n2) of the numbers of pairs seen once and twice (Ney et al.
    1994).
    """

    def __init__(self, sequences: Iterable[Ids], num_ids: int) -> None:
        """Raises `ValueError` if no sequence has two ids."""
        rows = [row for row in sequences if len(row) > 1]
        if not rows:
            raise UserError("no pair of pieces to count: give a corpus with text in it")
        first, second = (np.concatenate([row[part] for row in rows]) for part in (_FIRST, _SECOND))
        ones, shape = np.ones(len(first)), (num_ids, num_ids)
        self._counts = coo_matrix((ones, (first, second)), shape).tocsr()  # of pairs
        once, twice = (int((self._counts.data == n).sum()) for n in (1, 2))
        self._discount = once / (once + 2 * twice) if once else 0.0
        self._num_before = np.bincount(first, minlength=num_ids)
        self._followers = np.diff(self._counts.indptr)
        num_before = np.bincount(self._counts.indices, minlength=num_ids)
        self._continuation = (num_before + 1) / (self._counts.nnz + num_ids)
        frequencies = np.bincount(np.concatenate(rows), minlength=num_ids) + 1
        self._unigram = frequencies / frequencies.sum()

    def surprisals(self, ids: Ids) -> Floats:
        """-log p of each id after the one before it, (T - 1,), in nats."""
        first, second = ids[_FIRST], ids[_SECOND]
        total = np.maximum(self._num_before[first], 1)
        reserved = np.where(
            self._num_before[first] > 0, self._discount * self._followers[first] / total, 1.0
        )
        counts = np.asarray(self._counts[first, second]).ravel()
        seen = np.maximum(counts - self._discount, 0) / total
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(seen + reserved * self._continuation[second]))

    def rarities(self, ids: Ids) -> Floats:
        """-log of the fraction of each id in the text, with one more of each."""
        return np.asarray(-np.log(self._unigram[ids]))


def detectors_of(reader: Reader, corpus: Sequence[Path]) -> dict[str, PieceScores]:
    """By name: those of the networks that are there, and of counts in the files of `corpus`."""
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
        counts = Bigrams(_sequences(reader, corpus), len(reader.source.tokenizer))
        before, nothing = reader.before[-1:], np.zeros(int(not reader.before))
        detectors["bigram"] = lambda texts: [
            np.concatenate([nothing, counts.surprisals(np.array([*before, *t.ids]))]) for t in texts
        ]
        detectors["rarity"] = lambda texts: [counts.rarities(t.ids) for t in texts]
    return detectors


def _sequences(reader: Reader, paths: Sequence[Path]) -> Iterator[Ids]:
    """Ids of documents: Parquet with a column `text`, or one text a line."""
    with Progress("corpus", None, "documents") as progress:
        for path in paths:
            documents = _documents(path)
            while texts := list(islice(documents, _DOCUMENTS)):
                for ids in reader.source.tokenizer(texts, verbose=False)["input_ids"]:
                    yield np.array(ids)
                progress.update(len(texts))


def _documents(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise UserError(f"no corpus file {path}; give documents-*.parquet of a run's clean folder")
    if path.suffix == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_DOCUMENTS, columns=["text"]):
                yield from batch.column("text").to_pylist()
    else:
        with path.open(encoding="utf-8") as lines:
            yield from filter(str.strip, lines)


@dataclass(frozen=True)
class MistakeFigure:
    """One figure with its interval over sentences."""

    kind: str
    num_sentences: int
    detector: str
    metric: str
    estimate: Estimate


def mistake_figures(
    reader: Reader,
    detectors: Mapping[str, PieceScores],
    planted: Mapping[str, Sequence[Planted]],
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
