"""`python -m tests.golden DIR`: compare our metrics with the official scorers' golden vectors."""

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from electrify.storage.files import read_json
from tests.golden import inputs, scores
from tests.golden.compare import Adapter, Golden, Refused, is_error

ADAPTERS: Mapping[str, Adapter] = {**scores.ADAPTERS, **inputs.ADAPTERS}


def check_metrics(directory: Path) -> int:
    """Run every golden file (*.json) of a folder; print `N agree, M differ` in cases.

    A case agrees where all its values do and none is left out. Returns the exit code: 1 if any
    value differs, or none agrees.
    """
    total: Counter[str] = Counter(agree=0, differ=0, missing=0)
    for path in sorted(directory.glob("*.json")):
        golden = read_json(path)
        adapter = find_adapter(golden["task"])
        if adapter is None:
            print(f"{path.name}: not covered (task {golden['task']!r})")
            total["missing"] += 1
            continue
        num_agree, differ = check_file(golden, adapter)
        print(f"{path.name}: {num_agree} agree, {len(differ)} differ")
        for case, lines in differ.items():
            print(*(f"  {case} {line}" for line in lines), sep="\n")
        total.update(agree=num_agree, differ=len(differ))
    print("{agree:,} agree, {differ:,} differ, {missing:,} not covered".format(**total))
    return 1 if total["differ"] or not total["agree"] else 0


def find_adapter(task: str) -> Adapter | None:
    """The adapter of a `task` string; "glue/mrpc,qqp" has that of both if it is one."""
    if task in ADAPTERS:
        return ADAPTERS[task]
    suite, slash, names = task.partition("/")
    found = {ADAPTERS.get(f"{suite}{slash}{name.strip()}") for name in names.split(",")}
    return found.pop() if len(found) == 1 else None


def check_file(golden: Golden, adapter: Adapter) -> tuple[int, Mapping[str, list[str]]]:
    """How many cases agree, and of the others a line a value that differs or was not computed."""
    comparisons = list(adapter(golden))
    blocks = [golden["expected"], *golden.get("expected_other", {}).values()]
    wanted = Counter(
        (case, name)
        for block in blocks
        for case, expected in block.items()
        for name in (expected if isinstance(expected, Mapping) and not is_error(expected) else [""])
    )
    differ: dict[str, list[str]] = defaultdict(list)
    for case, name in wanted - Counter((c.case, c.name) for c in comparisons):
        differ[case].append(f"{name}: not covered")
    for case, name, expected, computed in (c for c in comparisons if not c.agrees):
        ours = f"refused: {computed.message}" if isinstance(computed, Refused) else repr(computed)
        differ[case].append(f"{name}: {expected!r:.160} expected, {ours:.160} computed")
    return len({case for block in blocks for case in block} - differ.keys()), differ


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.golden DIR")
    sys.exit(check_metrics(Path(sys.argv[1])))
