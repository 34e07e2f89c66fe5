"""Sums over hidden tokens, by sequence, to means with intervals."""

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from electrify.masked_report import (
    Context,
    ContextFigures,
    Estimate,
    Figure,
    Gain,
    Group,
    Predictor,
    SequenceSums,
)
from electrify.resampling import Floats, outcome, ratio_intervals

_SEED = 20_030_555  # of the resampling alone
_Key = tuple[Predictor, Figure]
_E = TypeVar("_E", bound=Estimate)


def context_figures(sequences: Sequence[SequenceSums], context: Context) -> ContextFigures:
    """Of all sequences, and of each language where there are several."""
    languages = sorted({sequence.language for sequence in sequences})
    by_language = {
        language: _group([s for s in sequences if s.language == language], context)
        for language in languages
        if len(languages) > 1
    }
    return ContextFigures(all=_group(sequences, context), languages=by_language)


def _group(sequences: Sequence[SequenceSums], context: Context) -> Group:
    counts = np.array([sequence.num_positions for sequence in sequences], dtype=np.float64)
    keys: list[_Key] = [
        (predictor, figure)
        for predictor, figures in sequences[0].sums[context].items()
        for figure in figures
    ]
    columns = {
        (predictor, figure): np.array([s.sums[context][predictor][figure] for s in sequences])
        for predictor, figure in keys
    }
    compared = [key for key in keys if key[0] != "generator" and ("generator", key[1]) in columns]
    found = [s.found[context] for s in sequences if s.found is not None]
    table = [columns[key] for key in keys]
    table += [columns[key] - columns["generator", key[1]] for key in compared]
    table += [np.array(found)] if found else []
    ratios, bounds = ratio_intervals(np.stack(table, axis=1), counts, _SEED)
    estimates = [_estimate(*row) for row in zip(ratios, bounds, strict=True)]
    coverage = _level(estimates.pop()) if found else None
    levels = {key: _level(estimate) for key, estimate in zip(keys, estimates, strict=False)}
    gains = zip(compared, estimates[len(keys) :], strict=True)
    return Group(
        num_sequences=len(sequences),
        num_positions=int(counts.sum()),
        coverage=coverage,
        predictors=_nested(levels),
        gains=_nested({key: _gain(estimate) for key, estimate in gains}),
    )


def _estimate(value: float, bounds: Floats) -> Estimate:
    low, high = (None if math.isnan(bound) else float(bound) for bound in bounds)
    return Estimate(value=float(value), low=low, high=high)


def _level(estimate: Estimate) -> Estimate:
    """Without an interval where all sequences are alike, as where nothing was named at all: from
    no spread, resampling would make a certainty."""
    if estimate.low == estimate.high:
        return Estimate(value=estimate.value, low=None, high=None)
    return estimate


def _gain(estimate: Estimate) -> Gain:
    return Gain(**estimate.model_dump(), outcome=outcome(estimate.low, estimate.high))


def _nested(flat: dict[_Key, _E]) -> dict[Predictor, dict[Figure, _E]]:
    nested: dict[Predictor, dict[Figure, _E]] = {}
    for (predictor, figure), estimate in flat.items():
        nested.setdefault(predictor, {})[figure] = estimate
    return nested
