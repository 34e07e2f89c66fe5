"""Values of golden files beside what we compute: what an adapter yields, and when two are equal.

`scores` and `inputs` export `ADAPTERS`: the adapter for each `task` string of a golden file,
written in full. An adapter yields one comparison for every name of every case of `expected` and of
each block of `expected_other`; `check` counts what is left out as not covered, so that nothing
agrees by silence.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

WORDS_OF_NUMBERS = ("nan", "inf", "-inf")  # how files write floats that JSON has not
RELATIVE_TOLERANCE = 1e-6
Golden = Mapping[str, Any]  # one file: task, references, predictions, expected, ...


class Refused(NamedTuple):
    """In place of a value: our code does not take this input."""

    message: str


class Comparison(NamedTuple):
    """One expected value of a golden file beside ours.

    `expected` is as the file writes it: numbers, text, "nan" and "inf" as text, lists and mappings
    of these, or `{"error": ...}`, which only `Refused` equals. `computed` has the file's scale.
    """

    case: str
    name: str  # the key in the case's `expected`; "" where the case is one value or one error
    expected: Any
    computed: Any

    @property
    def agrees(self) -> bool:
        """Whether what we compute is what is expected, numbers within the tolerance."""
        # sums in another order differ by 1e-12; p may be far below that
        absolute = 0.0 if self.name == "p" else 1e-12
        return _equal(self.expected, self.computed, absolute)


Adapter = Callable[[Golden], Iterator[Comparison]]
Compute = Callable[[Golden, str], Any]  # of a file and the name of a case


def of_cases(compute: Compute, compute_other: Compute | None = None) -> Adapter:
    """An adapter of files whose cases each stand alone; `compute_other` is of `expected_other`."""

    def adapter(golden: Golden) -> Iterator[Comparison]:
        yield from compare_cases(golden["expected"], lambda case: compute(golden, case))
        for block in golden.get("expected_other", {}).values():
            other = compute_other or compute
            yield from compare_cases(block, lambda case: other(golden, case))  # noqa: B023

    return adapter


def compare_cases(cases: Mapping[str, Any], compute: Callable[[str], Any]) -> Iterator[Comparison]:
    """Every value of one block of cases beside `compute(case)`.

    That is a mapping by name (values of it may be `Refused`) where the file has one, else the value
    itself; a `ValueError` or `KeyError` of `compute` refuses the whole case.
    """
    for case, expected in cases.items():
        computed = attempt(compute, case)
        if is_error(expected) or not isinstance(expected, Mapping):
            yield Comparison(case, "", expected, computed)
            continue
        for name, value in expected.items():
            if isinstance(computed, Refused):
                yield Comparison(case, name, value, computed)
            elif name in computed:
                yield Comparison(case, name, value, computed[name])


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """The value of a function, or `Refused` where it raises `ValueError` or `KeyError`."""
    try:
        return function(*arguments)
    except (ValueError, KeyError) as error:
        return Refused(str(error))


def is_error(expected: Any) -> bool:
    """Whether the official scorer stops here: `{"error": exception name}`."""
    return isinstance(expected, Mapping) and set(expected) == {"error"}


def percent(values: Mapping[str, float]) -> dict[str, float]:
    """Times 100, but for counts and thresholds."""
    return {
        name: value if name.endswith(("total", "thresh")) else 100 * value
        for name, value in values.items()
    }


def _equal(expected: Any, computed: Any, absolute: float) -> bool:
    if is_error(expected) or isinstance(computed, Refused):
        return is_error(expected) and isinstance(computed, Refused)
    if isinstance(expected, Mapping):
        return (
            isinstance(computed, Mapping)
            and expected.keys() == computed.keys()
            and all(_equal(value, computed[key], absolute) for key, value in expected.items())
        )
    if isinstance(expected, list):
        return (
            isinstance(computed, list | tuple | np.ndarray)
            and len(expected) == len(computed)
            and all(_equal(a, b, absolute) for a, b in zip(expected, computed, strict=True))
        )
    if isinstance(expected, str) and expected in WORDS_OF_NUMBERS and isinstance(computed, Real):
        expected = float(expected)
    is_number = isinstance(expected, Real) and isinstance(computed, Real)
    if not is_number or isinstance(expected, bool) or isinstance(computed, bool):
        return type(expected) is type(computed) and bool(expected == computed)
    if isinstance(expected, Integral) and isinstance(computed, Integral):
        return int(expected) == int(computed)
    if math.isnan(expected):
        return math.isnan(computed)
    return math.isclose(computed, expected, rel_tol=RELATIVE_TOLERANCE, abs_tol=absolute)
