"""How sure a variant's mean over pretraining seeds is, and the difference of two.

Every variant has a few seeds. What they vary by is taken to be alike in all variants, so that its
variance is pooled over the whole grid (the within-group mean square of an analysis of variance):
sixteen variants of three seeds give it 32 degrees of freedom where a variant alone has two.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.ablate.grid import Claim
from benchmarks.comparison import ALPHA
from benchmarks.metrics.statistics import holm

Values = Mapping[str, Sequence[float]]  # by variant: a score a seed


@dataclass(frozen=True)
class Spread:
    """What a score varies by from seed to seed."""

    sd: float  # nan without two seeds of any variant
    degrees: int  # of freedom

    def half_width(self, *counts: int) -> float:
        """Of the 95 % interval of a mean over `counts` seeds, or of the difference of two means."""
        from scipy.stats import t

        if not self.degrees:
            return math.nan
        quantile = float(t.ppf(0.975, self.degrees))
        return quantile * self.sd * math.sqrt(sum(1 / count for count in counts))

    def p(self, difference: float, *counts: int) -> float:
        """Two-sided, of as large a difference where there is none; nan where nothing is known."""
        from scipy.stats import t

        if not self.degrees:
            return math.nan
        error = self.sd * math.sqrt(sum(1 / count for count in counts))
        if not error:
            return 0.0 if difference else 1.0
        return 2 * float(t.sf(abs(difference) / error, self.degrees))


@dataclass(frozen=True)
class Verdict:
    """A claim beside what was found."""

    claim: Claim
    difference: float | None  # of the first to the second; None: not both are there
    half_width: float = math.nan
    p: float = math.nan
    p_corrected: float = math.nan  # over all claims of the grid (Holm)

    @property
    def outcome(self) -> str:
        """'holds', 'does not hold', 'cannot be told apart' or what is not there."""
        if self.difference is None:
            return "not run"
        if math.isnan(self.p_corrected):
            return "one seed: cannot be told"
        if self.p_corrected > ALPHA:
            return "cannot be told apart"
        if self.claim.is_equality:
            return "does not hold: they differ"
        return "holds" if self.difference > 0 else "does not hold: the other way round"


def pooled_spread(values: Values) -> Spread:
    """Within variants, over all of them."""
    groups = [group for group in values.values() if len(group) > 1]
    degrees = sum(len(group) - 1 for group in groups)
    if not degrees:
        return Spread(math.nan, 0)
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in groups)
    return Spread(math.sqrt(squares / degrees), degrees)


def judge(claims: Sequence[Claim], values: Values, spread: Spread) -> list[Verdict]:
    """Each claim against the means over seeds, p corrected over all that can be told."""
    verdicts = [_verdict(claim, values, spread) for claim in claims]
    corrected = iter(holm([verdict.p for verdict in verdicts if not math.isnan(verdict.p)]))
    return [
        verdict if math.isnan(verdict.p) else replace(verdict, p_corrected=next(corrected))
        for verdict in verdicts
    ]


def _verdict(claim: Claim, values: Values, spread: Spread) -> Verdict:
    first, second = values.get(claim.better), values.get(claim.worse)
    if not first or not second:
        return Verdict(claim, None)
    difference = statistics.fmean(first) - statistics.fmean(second)
    counts = len(first), len(second)
    return Verdict(claim, difference, spread.half_width(*counts), spread.p(difference, *counts))
