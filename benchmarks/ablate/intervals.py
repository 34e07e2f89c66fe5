"""How sure the differences between variants are, each of which has a few seeds.

A seed draws what is learnt from in fine-tuning and the order of pretraining for all variants
alike, so that a score is taken as variant + seed + rest (two-way analysis of variance without
interaction, by least squares, so that variants may lack seeds). The rest is taken to vary alike in
all variants: its variance is pooled over the whole grid, which gives sixteen variants of two seeds
fifteen degrees of freedom where a pair of them alone has one. Of two variants it is the paired
t-test.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from benchmarks.ablate.grid import Claim
from benchmarks.comparison import ALPHA
from benchmarks.metrics.statistics import holm
from benchmarks.uncertainty import student

Values = Mapping[str, Mapping[int, float]]  # by variant and seed: a score
_Floats = npt.NDArray[np.float64]
_ROUNDING = 1e-24  # of a sum of squares of scores


@dataclass(frozen=True)
class Difference:
    """A mean over seeds less another one; nan where nothing is known of how sure it is."""

    value: float
    half_width: float  # of the 95 % interval
    p: float  # two-sided, of as large a difference where there is none


@dataclass(frozen=True)
class Verdict:
    """A claim beside what was found."""

    claim: Claim
    column: str  # of scores that it is judged by
    difference: Difference | None  # of the first to the second; None: not both are there
    p_corrected: float = math.nan  # over all claims and columns (Holm)

    @property
    def outcome(self) -> str:
        """'holds', 'does not hold', 'cannot be told apart' or what is not there."""
        if self.difference is None:
            return "not run"
        if math.isnan(self.p_corrected):
            return "too few seeds to tell"
        if self.p_corrected > ALPHA:
            return "cannot be told apart"
        if self.claim.is_equality:
            return "does not hold: they differ"
        return "holds" if self.difference.value > 0 else "does not hold: the other way round"


class Fit:
    """Least squares of scores on variant and seed."""

    def __init__(self, values: Values) -> None:
        cells = [(variant, seed, score) for variant, of_seeds in values.items()
                 for seed, score in of_seeds.items() if math.isfinite(score)]  # fmt: skip
        self.counts = Counter(variant for variant, _, _ in cells)
        self.variants = list(self.counts)
        self.seeds = sorted({seed for _, seed, _ in cells})
        self._design = np.array([self._row(variant, seed) for variant, seed, _ in cells])
        self._scores = np.array([score for _, _, score in cells])
        self._inverse = np.linalg.pinv(self._design.T @ self._design)
        self._effects: _Floats = self._inverse @ self._design.T @ self._scores

    def mean(self, variant: str) -> float:
        """Over all seeds of the grid: where the variant lacks one, as the others had it; nan where
        no other variant links its seeds to the rest."""
        rows = [self._row(variant, seed) for seed in self.seeds]
        return self._estimate(np.mean(rows, axis=0))

    @property
    def half_width_of_a_run(self) -> float:
        """Of the 95 % interval of one score, what seeds do to all variants alike left out."""
        return student(0.0, self.sd, self.degrees)[0]

    def difference(self, variant: str, other: str) -> Difference:
        """With its interval and p; nan where the grid has too few seeds, or no two that link the
        variants, and where nothing varies, of which nothing can be learnt."""
        contrast = self._row(variant, self.seeds[0]) - self._row(other, self.seeds[0])
        value = self._estimate(contrast)
        if math.isnan(value) or not self.degrees or not self.sd:
            return Difference(value, math.nan, math.nan)
        error = self.sd * math.sqrt(float(contrast @ self._inverse @ contrast))
        return Difference(value, *student(value, error, self.degrees))

    def _estimate(self, contrast: _Floats) -> float:
        """Of the effects; nan if the scores do not determine it (it is no sum of their rows)."""
        projected = contrast @ self._inverse @ self._design.T @ self._design
        return float(contrast @ self._effects) if np.allclose(projected, contrast) else math.nan

    @cached_property
    def degrees(self) -> int:
        """Degrees of freedom of the rest."""
        return len(self._scores) - int(np.linalg.matrix_rank(self._design))

    @cached_property
    def sd(self) -> float:
        """Of the rest, pooled over variants; nan without degrees of freedom."""
        if not self.degrees:
            return math.nan
        rest = self._scores - self._design @ self._effects
        squares = float(rest @ rest)
        return math.sqrt(squares / self.degrees) if squares > _ROUNDING else 0.0

    def _row(self, variant: str, seed: int) -> _Floats:
        """(variants + seeds,): one in the place of each."""
        of_variant = [float(variant == other) for other in self.variants]
        return np.array([*of_variant, *(float(seed == other) for other in self.seeds)])


def judge(claims: Sequence[Claim], fits: Mapping[str, Fit | None]) -> list[Verdict]:
    """Each claim by each column's means over seeds, p corrected over all: one that cannot be told
    yet counts as p = 1, so that the verdicts of a grid under way need as much as those of all."""
    verdicts = [_verdict(claim, column, fit) for column, fit in fits.items() for claim in claims]
    p_values = [math.nan if v.difference is None else v.difference.p for v in verdicts]
    corrected = holm([1.0 if math.isnan(p) else p for p in p_values])
    return [
        verdict if math.isnan(p) else replace(verdict, p_corrected=p_corrected)
        for verdict, p, p_corrected in zip(verdicts, p_values, corrected, strict=True)
    ]


def _verdict(claim: Claim, column: str, fit: Fit | None) -> Verdict:
    if fit is None or not {claim.better, claim.worse} <= set(fit.variants):
        return Verdict(claim, column, None)
    return Verdict(claim, column, fit.difference(claim.better, claim.worse))
