"""Tests of a family of differences."""

import math
from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of a family of tests, in the order given (Holm 1979).

    To call those of at most 0.05 different is wrong anywhere in the family in 5 % of families at
    most. The k-th smallest of m is multiplied by m - k + 1, and is no smaller than those before it.
    A p that is not known (nan) counts as 1.
    """
    p_values = [1.0 if math.isnan(p) else p for p in p_values]
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
