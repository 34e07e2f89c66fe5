"""`python -m tests.golden`: our vectors, the shared ones, and that a wrong value is found."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from electrify.storage.files import read_json
from tests.benchmarks.records import RE, WOS
from tests.golden.__main__ import ADAPTERS, check_file, check_metrics, find_adapter

OWN = Path(__file__).parent / "vectors"
SHARED = Path(__file__).parents[3] / "shared" / "golden" / "metrics"
FILES = sorted(path.name for path in OWN.glob("*.json"))
# followed step by step by the tests of its kind; its vectors are in the shared folder
TESTED_ELSEWHERE = {"klue/mrc (model outputs to answers)"}
KLUE = SHARED.parents[1] / "data" / "klue"


@pytest.mark.parametrize("folder", [OWN, SHARED], ids=["ours", "shared"])
def test_the_vectors_agree(folder, capsys):
    if not folder.is_dir():
        pytest.skip(f"no golden vectors at {folder}")
    assert check_metrics(folder) == 0
    num_cases = sum(len(read_json(path)["expected"]) for path in folder.glob("*.json"))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"{num_cases} agree, 0 differ, 0 not covered")


def test_our_vectors_are_of_every_metric():
    seen = {find_adapter(read_json(OWN / name)["task"]) for name in FILES}
    assert {task for task, adapter in ADAPTERS.items() if adapter not in seen} == TESTED_ELSEWHERE


def changed(value: Any) -> Any:
    """Something that is not the value, by a little where it is a number."""
    if isinstance(value, dict):
        if set(value) == {"error"}:
            return 0.5
        return {key: changed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [changed(inner) for inner in value] or [0]
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * (1 + 3e-6) or 3e-6
    return 0.0 if value == "nan" else value + "!"


@pytest.mark.parametrize("name", FILES)
def test_every_changed_value_differs(name):
    golden = read_json(OWN / name)
    adapter = find_adapter(golden["task"])
    assert adapter is not None
    wrong = copy.deepcopy(golden)
    wrong["expected"] = changed_cases(golden["expected"])
    wrong["expected_other"] = {
        source: changed_cases(block) for source, block in golden.get("expected_other", {}).items()
    }
    comparisons = list(adapter(wrong))
    assert comparisons
    # the number of resamples is asked for by the file, and its windows are left as they are
    agreeing = [c for c in comparisons if c.agrees and c.name != "iters"]
    assert [c for c in agreeing if not c.case.startswith("window")] == []
    assert check_file(wrong, adapter)[0] == 0


def changed_cases(cases: dict[str, Any]) -> dict[str, Any]:
    return {case: changed(values) for case, values in cases.items()}


@pytest.mark.skipif(not KLUE.is_dir(), reason=f"no KLUE files at {KLUE}")
def test_lists_of_labels_are_those_of_the_official_files():
    relations = json.loads((KLUE / "re" / "relation_list.json").read_text(encoding="utf-8"))
    assert tuple(relations["relations"]) == RE.labels
    ontology = json.loads((KLUE / "wos" / "ontology.json").read_text(encoding="utf-8"))
    assert tuple(sorted(ontology)) == WOS.labels
