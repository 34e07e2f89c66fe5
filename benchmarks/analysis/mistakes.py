"""Who finds planted mistakes: the two networks, and two models that count pieces of a corpus.

A word is as suspicious as its most suspicious piece, a mistake as the most suspicious word that it
touches. The others are the words of the same sentence that it does not touch. All detectors have
the same threshold in this sense: the fraction of words of right sentences above it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.analysis.inspect import (
    bracketed,
    bundled_sentences,
    bundled_threshold,
    examine,
    open_discriminator,
)
from benchmarks.analysis.korean import analyse, word_spans
from benchmarks.analysis.plant import Planted, plant_evenly, words_by_form
from benchmarks.analysis.reader import Ids, Reader, TokenizedText
from benchmarks.analysis.report import MistakeFigure
from benchmarks.metrics.detection import (
    auc,
    precision_above,
    recall_above,
    threshold_at,
)
from benchmarks.metrics.weighted import Floats, Weighted
from benchmarks.statistics.uncertainty import Draws, difference, estimate, resample_scores
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log

FALSE_ALARMS = 0.01
_DOCUMENTS = 1000  # tokenised at once

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
        codes = np.concatenate([row[:-1] * num_ids + row[1:] for row in rows])
        self._pairs, self._counts = np.unique(codes, return_counts=True)
        first, second = np.divmod(self._pairs, num_ids)
        once, twice = (int((self._counts == n).sum()) for n in (1, 2))
        self._discount = once / (once + 2 * twice) if once else 0.0
        self._num_before = np.bincount(first, self._counts, num_ids)
        self._followers = np.bincount(first, minlength=num_ids)
        self._continuation = (np.bincount(second, minlength=num_ids) + 1) / (len(first) + num_ids)
        ones = np.bincount(np.concatenate(rows), minlength=num_ids) + 1
        self._unigram = ones / ones.sum()
        self._num_ids = num_ids

    def surprisals(self, ids: Ids) -> Floats:
        """-log p of each id after the one before it, (T - 1,), in nats."""
        first, second = ids[:-1], ids[1:]
        codes = first * self._num_ids + second
        places = np.minimum(np.searchsorted(self._pairs, codes), len(self._pairs) - 1)
        counts = np.where(self._pairs[places] == codes, self._counts[places], 0)
        total = np.maximum(self._num_before[first], 1)
        reserved = np.where(
            self._num_before[first] > 0, self._discount * self._followers[first] / total, 1.0
        )
        seen = np.maximum(counts - self._discount, 0) / total
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(seen + reserved * self._continuation[second]))

    def rarities(self, ids: Ids) -> Floats:
        """-log of the fraction of each id in the text, with one more of each."""
        return np.asarray(-np.log(self._unigram[ids]))


def detectors_of(reader: Reader, corpus: Sequence[Path]) -> dict[str, PieceScores]:
    """By name: those of the networks that are there, and of counts in `corpus` if files are named.

    Raises `ValueError` where there is none.
    """
    detectors: dict[str, PieceScores] = {}
    if reader.discriminator is not None:
        detectors["discriminator"] = lambda texts: reader.replaced_logits([t.ids for t in texts])
    if reader.generator is not None:
        detectors["generator"] = lambda texts: pseudo_likelihood(reader, texts)
    if not detectors:
        raise UserError(
            f"{reader.source.path} has neither a discriminator (ElectraForPreTraining) nor a "
            "masked language model (...ForMaskedLM); give a model with one of these heads"
        )
    if corpus:
        tokenizer, before = reader.source.tokenizer, reader.before[-1:]
        counts = Bigrams(_sequences(reader, corpus), len(tokenizer))
        detectors["bigram"] = lambda texts: [
            np.concatenate(
                [np.zeros(1 - len(before)), counts.surprisals(np.array([*before, *t.ids]))]
            )
            for t in texts
        ]
        detectors["rarity"] = lambda texts: [counts.rarities(t.ids) for t in texts]
    return detectors


def pseudo_likelihood(reader: Reader, texts: Sequence[TokenizedText]) -> list[Floats]:
    """-log p of each piece where it alone is masked (Salazar et al. 2020)."""
    masks = [(number, [piece]) for number, t in enumerate(texts) for piece in range(len(t.ids))]
    scores = reader.surprisals([t.ids for t in texts], masks)
    return np.split(scores, np.cumsum([len(t.ids) for t in texts])[:-1])


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


# --- figures --------------------------------------------------------------------------------------


def mistake_figures(
    reader: Reader,
    detectors: Mapping[str, PieceScores],
    planted: Mapping[str, Sequence[Planted]],
) -> list[MistakeFigure]:
    """Every figure of mistakes by kind.

    Beside each detector stand the differences in AUC between the first one and the others.
    """
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
    word_at = np.full(len(text.text) + 1, -1)
    for number, (start, end) in enumerate(spans):
        word_at[start:end] = number
    words = np.full(len(spans), scores.min())
    word_of = np.array([word_at[end - 1] if end > start else -1 for start, end in text.spans])
    np.maximum.at(words, word_of[word_of >= 0], scores[word_of >= 0])
    return words


def figures_of(
    planted: Mapping[str, Sequence[Planted]], words: Mapping[str, Mapping[str, Floats]]
) -> list[MistakeFigure]:
    """Every figure; `planted` is by kind, `words`, the suspicion of each word, by detector and
    text."""
    right = dict.fromkeys(p.clean for of_kind in planted.values() for p in of_kind)
    limits = {
        name: threshold_at(np.concatenate([of[text] for text in right]), FALSE_ALARMS)
        for name, of in words.items()
    }
    figures: list[MistakeFigure] = []
    for kind, of_kind in planted.items():
        metrics = {name: _metrics(of_kind, of, limits[name]) for name, of in words.items()}
        figures += _figures(kind, of_kind, metrics)
    return figures


def _metrics(
    planted: Sequence[Planted], words: Mapping[str, Floats], limit: float
) -> dict[str, Weighted]:
    touched = [_touched(mistake) for mistake in planted]
    scores = [words[mistake.text] for mistake in planted]
    wrong = np.array([of[places].max() for of, places in zip(scores, touched, strict=True)])
    others = [np.delete(of, places) for of, places in zip(scores, touched, strict=True)]
    right, owners = np.concatenate(others), np.repeat(np.arange(len(planted)), [*map(len, others)])
    return {
        "auc": auc(wrong, right, owners),
        f"recall at {FALSE_ALARMS:.0%}": recall_above(wrong, limit),
        f"precision at {FALSE_ALARMS:.0%}": precision_above(wrong, right, owners, limit),
    }


def _touched(mistake: Planted) -> list[int]:
    """Numbers of the words that a mistake leaves."""
    first, last = mistake.after
    spans = word_spans(mistake.text)
    return [n for n, (start, end) in enumerate(spans) if start < last and end > first]


def _figures(
    kind: str,
    planted: Sequence[Planted],
    metrics: Mapping[str, Mapping[str, Weighted]],
) -> Iterator[MistakeFigure]:
    count, ids = len(planted), "\n".join(mistake.text for mistake in planted)
    aucs: dict[str, tuple[float, Draws]] = {}
    for detector, of_detector in metrics.items():
        for metric, score in of_detector.items():
            value = float(score(np.ones((1, count)))[0])
            draws = resample_scores(ids, count, {0: score})
            if metric == "auc":
                aucs[detector] = value, draws
            interval = estimate({0: value}, draws, (0.0, 1.0))
            yield MistakeFigure(kind, count, detector, metric, interval)
    (first, (value, draws)), *others = aucs.items()
    for other, (other_value, other_draws) in others:
        gap = difference({0: value}, draws, {0: other_value}, other_draws)
        yield MistakeFigure(kind, count, f"{first} - {other}", "auc", gap)


# --- what `electrify run` says of its discriminator -----------------------------------------------

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
        planted = plant_evenly(kind, analysed, words, len(analysed), seed=0)
        findings = [examine(reader, p.text, threshold, has_attributions=False) for p in planted]
        is_marked = [
            any(s.word.start < p.after[1] and p.after[0] < s.word.stop for s in finding.suspicions)
            for p, finding in zip(planted, findings, strict=True)
        ]
        often = sum(is_marked) * 2 > len(planted)
        number = is_marked.index(often)
        shown = planted[number]
        right, wrong = shown.clean[slice(*shown.before)], shown.text[slice(*shown.after)]
        example = f"{wrong} for {right} is{'' if often else ' not'}"
        lines.append(f"{sum(is_marked)} of {len(planted)} {title} are marked; {example}:")
        lines.append(f"    {bracketed(findings[number])}")
    return lines
