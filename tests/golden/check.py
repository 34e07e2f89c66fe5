"""The self-test of the metrics against golden values of the official scorers; `compare` says what
an adapter yields."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electrify.storage.files import read_json
from tests.golden import inputs, scores
from tests.golden.compare import Adapter, Comparison, Golden, Refused, is_error

ADAPTERS: Mapping[str, Adapter] = {**scores.ADAPTERS, **inputs.ADAPTERS}


def check_metrics(directory: Path) -> int:
    """Run every golden file (*.json) of a folder; print `N agree, M differ` in cases.

    The sort of a file is its `task`. What no metric stands for is named as not covered. Returns the
    exit code: 1 if any value differs, or none agrees.
    """
    total: Counter[str] = Counter(agree=0, differ=0, missing=0)
    for path in sorted(directory.glob("*.json")):
        golden = read_json(path)
        adapter = find_adapter(golden["task"])
        if adapter is None:
            print(f"{path.name}: not covered (task {golden['task']!r})")
            total["missing"] += 1
            continue
        check = check_file(golden, adapter)
        print(f"{path.name}: {check.num_agree} agree, {len(check.differ)} differ")
        for line in [line for lines in check.differ.values() for line in lines]:
            print(f"  {line}")
        for case, names in check.not_covered.items():
            print(f"  {case}: not covered {', '.join(names)}".rstrip())
        total["agree"] += check.num_agree
        total["differ"] += len(check.differ)
        total["missing"] += len(check.not_covered)
    print("{agree:,} agree, {differ:,} differ, {missing:,} not covered".format(**total))
    return 1 if total["differ"] or not total["agree"] else 0


@dataclass(frozen=True)
class FileCheck:
    """What came of one file. A case agrees where all its values do and none is left out."""

    num_agree: int
    differ: Mapping[str, Sequence[str]]  # by case, a line a value
    not_covered: Mapping[str, Sequence[str]]  # by case, the names that nothing was computed for


def find_adapter(task: str) -> Adapter | None:
    """The adapter of a task string; "glue/mrpc,qqp" has that of both if it is one."""
    if task in ADAPTERS:
        return ADAPTERS[task]
    suite, slash, names = task.partition("/")
    found = {ADAPTERS.get(f"{suite}{slash}{name.strip()}") for name in names.split(",")}
    return found.pop() if len(found) == 1 else None


def check_file(golden: Golden, adapter: Adapter) -> FileCheck:
    """Compare every value of a file."""
    comparisons = list(adapter(golden))
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
    return FileCheck(len(agreeing), differ, not_covered)


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
    return f"{where}: {comparison.expected!r:.160} expected, {ours:.160} computed"
