"""The self-test of the metrics against golden values of the official scorers.

`scores` and `inputs` have an adapter for each `task` string of a golden file, written in full. An
adapter yields one comparison for every name of every case of `expected` and of each block of
`expected_other`; what is left out is counted as not covered, so that nothing agrees by silence.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electrify.storage.files import read_json
from tests.golden import inputs, scores
from tests.golden.compare import Adapter, Comparison, Golden, Refused, is_error

_LONGEST_SHOWN = 160
_KEYS = {"task": str, "references": object, "predictions": dict, "expected": dict}

ADAPTERS: Mapping[str, Adapter] = {**scores.ADAPTERS, **inputs.ADAPTERS}


@dataclass(frozen=True)
class FileCheck:
    """What came of one file. A case agrees where all its values do and none is left out."""

    num_agree: int
    num_values: int
    differ: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by case, a line a value
    not_covered: Sequence[str] = ()  # cases, with the names that nothing was computed for


def check_metrics(directory: Path) -> int:
    """Run every golden file (*.json) of a folder; print `N agree, M differ` in cases.

    The sort of a file is its `task`. What no metric stands for is named as not covered; a folder of
    which nothing is covered is refused. Returns the exit code: 1 if any value differs.
    """
    paths = sorted(directory.glob("*.json"))
    if not paths:
        raise ValueError(f"no golden files (*.json) in {directory}; give the folder that has them")
    agree = differ = missing = num_values = 0
    for path in paths:
        golden = read_golden(path)
        adapter = find_adapter(golden["task"])
        if adapter is None:
            print(f"{path.name}: not covered (task {golden['task']!r})")
            missing += 1
            continue
        check = check_file(path, golden, adapter)
        print(f"{path.name}: {check.num_agree} agree, {len(check.differ)} differ")
        for line in [line for lines in check.differ.values() for line in lines]:
            print(f"  {line}")
        for case in check.not_covered:
            print(f"  {case}: not covered")
        agree, differ = agree + check.num_agree, differ + len(check.differ)
        missing, num_values = missing + len(check.not_covered), num_values + check.num_values
    if not agree + differ:
        raise ValueError(
            f"of the {len(paths)} golden files in {directory} none has a case that is covered; "
            f"the tasks known are {', '.join(sorted(ADAPTERS))}"
        )
    counts = f"{agree:,} agree, {differ:,} differ, {missing:,} not covered"
    print(f"{counts} ({num_values:,} values compared)")
    return 1 if differ else 0


def read_golden(path: Path) -> dict[str, Any]:
    """A golden file, its outer form checked; `ValueError` says what is wrong with it."""
    try:
        golden = read_json(path)
        if not isinstance(golden, dict):
            raise ValueError("it holds no JSON object")
        for key, kind in _KEYS.items():
            if key not in golden:
                raise ValueError(f"{key!r} is missing")
            if not isinstance(golden[key], kind):
                raise ValueError(f"{key!r} is {golden[key]!r:.40}")
        others = golden.get("expected_other", {})
        if not isinstance(others, dict) or not all(isinstance(b, dict) for b in others.values()):
            raise ValueError("'expected_other' has no cases by source")
    except ValueError as error:
        raise ValueError(f"{path} is not a golden metric file: {error}") from None
    return golden


def find_adapter(task: str) -> Adapter | None:
    """The adapter of a task string; "glue/mrpc,qqp" has that of both if it is one."""
    if task in ADAPTERS:
        return ADAPTERS[task]
    suite, slash, names = task.partition("/")
    found = {ADAPTERS.get(f"{suite}{slash}{name.strip()}") for name in names.split(",")}
    return found.pop() if len(found) == 1 else None


def check_file(path: Path, golden: Golden, adapter: Adapter) -> FileCheck:
    """Compare every value of a file; `ValueError` where its cases lack what the task needs."""
    try:
        comparisons = list(adapter(golden))
    except (KeyError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise ValueError(
            f"{path} is not a golden file of {golden['task']!r}: {error!r} while it was read"
        ) from error
    blocks = [golden["expected"], *golden.get("expected_other", {}).values()]
    wanted = Counter(item for block in blocks for item in _names(block))
    not_covered: dict[str, list[str]] = defaultdict(list)
    for case, name in wanted - Counter((c.case, c.name) for c in comparisons):
        not_covered[case].append(name)
    differ: dict[str, list[str]] = defaultdict(list)
    for comparison in comparisons:
        if not comparison.agrees:
            differ[comparison.case].append(_difference(comparison))
    agreeing = {case for block in blocks for case in block} - differ.keys() - not_covered.keys()
    lines = [
        f"{case} ({', '.join(filter(None, names))})".removesuffix(" ()")
        for case, names in not_covered.items()
    ]
    return FileCheck(len(agreeing), len(comparisons), differ, lines)


def _names(cases: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(case, name) of every value of a block, the name as `compare_cases` gives it."""
    return [
        (case, name)
        for case, expected in cases.items()
        for name in (expected if isinstance(expected, Mapping) and not is_error(expected) else [""])
    ]


def _difference(comparison: Comparison) -> str:
    computed = comparison.computed
    ours = f"refused: {computed.message}" if isinstance(computed, Refused) else repr(computed)
    where = " ".join(filter(None, (comparison.case, comparison.name)))
    return f"{where}: {_cut(repr(comparison.expected))} expected, {_cut(ours)} computed"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
