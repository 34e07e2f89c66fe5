"""What a network is measured by: the reported rows of its task, or tokens of real text.

A benchmark turns the outputs of every row into predictions and a score, so that two files of one
network can be compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.encoder import ModelSource
from benchmarks.finetune.kept import Kept
from benchmarks.onnx.predict import Row
from benchmarks.results.predictions import plain, score_lines
from benchmarks.statistics.uncertainty import Draws, resample, resample_scores
from benchmarks.tasks.task import Example, Features

MASKED_FRACTION = 0.15
_MAX_TEXTS = 400
_NO_LABEL = -1


@dataclass(frozen=True)
class Outcome:
    """What a file says: predictions, one an example or a token, and their score."""

    predictions: Sequence[Any]
    score: float
    draws: Draws  # the score on resampled examples


@dataclass(frozen=True)
class Benchmark:
    """Rows with what their outputs are worth."""

    name: str
    metric: str
    unit: str  # what agreement counts
    rows: Sequence[Row]
    outcome: Callable[[Sequence[Row]], Outcome]  # of the outputs of all rows
    higher_is_better: bool = True
    must_agree: bool = True  # False: the score alone decides


def task_benchmark(kept: Kept, examples: Sequence[Example]) -> Benchmark:
    """The reported examples of a fine-tuned network's task.

    Agreement is by example; where a prediction is a sequence (tags), by element.
    """
    task = kept.task
    length = kept.settings.max_sequence_length
    features = task.featurize(examples, kept.source.tokenizer, length, train=False)

    def outcome(outputs: Sequence[Row]) -> Outcome:
        lines = plain(task.lines(examples, features, outputs))
        score = score_lines(task, lines)[task.headline]
        predictions = list(chain.from_iterable(_elements(line["prediction"]) for line in lines))
        return Outcome(predictions, score, resample(task, {0: lines}))

    metric, rises = task.headline, task.higher_is_better
    return Benchmark(task.name, metric, "predictions", rows_of(features), outcome, rises)


def _elements(prediction: Any) -> Sequence[Any]:
    return prediction if isinstance(prediction, list) else [prediction]


def rows_of(features: Features) -> list[Row]:
    """Each row without padding."""
    return [
        _row(ids.astype(np.int64)) | {"token_type_ids": types.astype(np.int64)}
        for ids, types in zip(features.input_ids, features.token_type_ids, strict=True)
    ]


def masked_tokens(source: ModelSource, texts: Sequence[str]) -> Benchmark:
    """Real text with [MASK] in place of `MASKED_FRACTION` of its pieces: the share that is found.

    For a network with `vocabulary_logits`. Agreement is by masked token, and decides nothing: which
    of all pieces is the likeliest changes at the least rounding.
    """
    rng = np.random.default_rng(0)
    rows, gold = [], []
    for ids, places in _places(source, texts, rng):
        gold.append(np.full(len(ids), _NO_LABEL))
        gold[-1][places] = ids[places]
        ids[places] = source.tokenizer.mask_token_id
        rows.append(_row(ids))
    benchmark = _tokens(
        "masked tokens", rows, gold, lambda of: of["vocabulary_logits"].argmax(axis=-1)
    )
    return replace(benchmark, must_agree=False)


def replaced_tokens(
    source: ModelSource,
    texts: Sequence[str],
    generate: Callable[[Sequence[Row]], Sequence[Row]] | None,
) -> Benchmark:
    """Real text of which `MASKED_FRACTION` was drawn anew: the share of tokens rightly judged.

    By the generator, whose outputs `generate` gives, else from the pieces of all texts. For a
    network with `replaced_logits`. Agreement is by token.
    """
    rng = np.random.default_rng(0)
    chosen = list(_places(source, texts, rng))
    pieces = np.concatenate([ids[1:-1] for ids, _ in chosen])
    drawn = [rng.choice(pieces, len(places)) for _, places in chosen]
    if generate is not None:
        masked = [ids.copy() for ids, _ in chosen]
        for ids, (_, places) in zip(masked, chosen, strict=True):
            ids[places] = source.tokenizer.mask_token_id
        logits = [of["vocabulary_logits"] for of in generate([_row(ids) for ids in masked])]
        drawn = [
            (of[places] + rng.gumbel(size=of[places].shape)).argmax(axis=-1)  # a sample of softmax
            for of, (_, places) in zip(logits, chosen, strict=True)
        ]
    rows, gold = [], []
    for (ids, places), of_places in zip(chosen, drawn, strict=True):
        before = ids.copy()
        ids[places] = of_places
        gold.append((ids != before).astype(np.int64))
        gold[-1][[0, -1]] = _NO_LABEL  # [CLS] and [SEP]
        rows.append(_row(ids))
    return _tokens("replaced tokens", rows, gold, lambda of: of["replaced_logits"] > 0)


def _places(
    source: ModelSource, texts: Sequence[str], rng: np.random.Generator
) -> Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Of each text its pieces and which of them are chosen, at least one."""
    found = []
    for text in texts[:_MAX_TEXTS]:
        ids = np.array(
            source.tokenizer(text, truncation=True, max_length=source.max_positions)["input_ids"],
            dtype=np.int64,
        )
        if len(ids) > 2:
            count = max(1, round(MASKED_FRACTION * (len(ids) - 2)))
            found.append((ids, np.sort(1 + rng.choice(len(ids) - 2, count, replace=False))))
    return found


def _row(ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    return {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }


def _tokens(
    name: str,
    rows: Sequence[Row],
    gold: Sequence[NDArray[np.int64]],
    predicted: Callable[[Row], NDArray[Any]],
) -> Benchmark:
    def outcome(outputs: Sequence[Row]) -> Outcome:
        pairs = [
            (predicted(of)[labels != _NO_LABEL], labels[labels != _NO_LABEL])
            for of, labels in zip(outputs, gold, strict=True)
        ]
        right = np.array([float((one == two).sum()) for one, two in pairs])
        counts = np.array([float(len(two)) for _, two in pairs])
        score = {0: lambda drawn: drawn @ right / (drawn @ counts)}
        draws = resample_scores(name, len(rows), score)
        tokens = np.concatenate([one for one, _ in pairs]).tolist()
        return Outcome(tokens, float(right.sum() / counts.sum()), draws)

    return Benchmark(name, "accuracy", "tokens", rows, outcome)
