"""`python -m tests.golden`: our vectors, the shared ones, and that a wrong value is found."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.records import RE, WOS
from tests.golden.check import (
    ADAPTERS,
    check_file,
    check_metrics,
    find_adapter,
    read_golden,
)
from tests.golden.compare import Comparison, Refused
from tests.golden.inputs import blank_separated_words, joined_pieces, project

OWN = Path(__file__).parent / "vectors"
SHARED = Path(__file__).parents[3] / "shared" / "golden" / "metrics"
FILES = sorted(path.name for path in OWN.glob("*.json"))
# followed step by step by the tests of its kind; its vectors are in the shared folder
TESTED_ELSEWHERE = {"klue/mrc (model outputs to answers)"}
KLUE = SHARED.parents[1] / "data" / "klue"


def test_our_vectors_agree(capsys):
    assert check_metrics(OWN) == 0
    num_cases = sum(len(read_golden(OWN / name)["expected"]) for name in FILES)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"{num_cases} agree, 0 differ, 0 not covered")


def test_our_vectors_are_of_every_metric():
    seen = {find_adapter(read_golden(OWN / name)["task"]) for name in FILES}
    assert {task for task, adapter in ADAPTERS.items() if adapter not in seen} == TESTED_ELSEWHERE


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no golden vectors at {SHARED}")
def test_the_shared_vectors_agree(capsys):
    paths = sorted(SHARED.glob("*.json"))
    assert check_metrics(SHARED) == 0
    num_cases = sum(len(read_golden(path)["expected"]) for path in paths)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"{num_cases} agree, 0 differ, 0 not covered")


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
    golden = read_golden(OWN / name)
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
    assert check_file(OWN / name, wrong, adapter).num_agree == 0


def changed_cases(cases: dict[str, Any]) -> dict[str, Any]:
    return {case: changed(values) for case, values in cases.items()}


@pytest.mark.parametrize(
    ("expected", "computed", "is_equal"),
    [
        (1.0, 1.0 + 5e-7, True),
        (1.0, 1.0 + 5e-6, False),
        (0.0, 1e-13, True),
        (0.0, 1e-9, False),
        (3, 3, True),
        (3_000_000, 3_000_001, False),
        ("nan", float("nan"), True),
        ("nan", 0.0, False),
        (0.0, float("nan"), False),
        ("-inf", -float("inf"), True),
        ("nan", "nan", True),
        ("a", "b", False),
        (True, 1, False),
        (None, None, True),
        (None, 0.0, False),
        ([1, 2.0], (1, 2.0), True),
        ([1, 2], [1, 2, 3], False),
        ({"a": [0.5]}, {"a": [0.5]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"error": "KeyError"}, Refused("no"), True),
        ({"error": "KeyError"}, 1.0, False),
        (1.0, Refused("no"), False),
        ("text", 1.0, False),
    ],
)
def test_values_are_equal(expected, computed, is_equal):
    assert Comparison("case", "name", expected, computed).agrees is is_equal


def test_a_p_value_is_compared_below_the_tolerance_of_sums():
    assert not Comparison("case", "p", 1.6e-13, 1.7e-13).agrees


def cola(value: Any, task: str = "glue/cola", **more: Any) -> str:
    predictions = {"tiny": {"ref": "all", "pred": [1, 0, 0, 1]}}
    golden = {
        "task": task,
        "references": {"all": [0, 1, 1, 0]},
        "predictions": predictions,
        "expected": {"tiny": value},
    }
    return json.dumps(golden | more)


def test_what_is_not_covered_is_named_and_counts_as_no_agreement(tmp_path, capsys):
    other = {"scorer": {"tiny": {"matthews_correlation": -1.0, "kappa": 0.0}}}
    (tmp_path / "a.json").write_text(cola({"mcc": -100.0}))
    (tmp_path / "b.json").write_text(cola({"mcc": -100.0}, expected_other=other))
    (tmp_path / "c.json").write_text(cola({"mcc": 1.0}, task="glue/unheard-of"))
    assert check_metrics(tmp_path) == 0
    printed = capsys.readouterr().out
    assert "b.json: 0 agree, 0 differ\n  tiny (kappa): not covered" in printed
    assert "c.json: not covered (task 'glue/unheard-of')" in printed
    assert printed.endswith("1 agree, 0 differ, 2 not covered (3 values compared)\n")


def test_a_wrong_value_is_shown_and_fails(tmp_path, capsys):
    (tmp_path / "cola.json").write_text(cola({"mcc": -99.0}))
    assert check_metrics(tmp_path) == 1
    printed = capsys.readouterr().out
    assert "  tiny mcc: -99.0 expected, -100.0 computed\n" in printed
    assert "0 agree, 1 differ" in printed


def test_a_refused_input_is_shown_with_its_reason(tmp_path, capsys):
    short = {"tiny": {"ref": "all", "pred": [1]}}
    (tmp_path / "cola.json").write_text(cola({"mcc": 0.0}, predictions=short))
    assert check_metrics(tmp_path) == 1
    assert "refused: gold labels have shape (4,) and predictions (1,)" in capsys.readouterr().out


def test_tasks_of_one_metric_share_a_file():
    assert find_adapter("glue/mrpc,qqp") is find_adapter("glue/mrpc")
    assert find_adapter("glue/sst2, rte") is find_adapter("glue/rte")
    assert find_adapter("glue/sst2,stsb") is None
    assert find_adapter("klue/nli (input construction)") is None


def test_a_window_that_the_harness_makes_otherwise_differs():
    path = OWN / "qa_postprocess_electra.json"
    golden = read_golden(path)
    golden["features"]["1"]["max_context"] = [4]
    assert "window 1" in check_file(path, golden, ADAPTERS[golden["task"]]).differ


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a golden metric file: .*Expecting"),
        ("[1]", "it holds no JSON object"),
        ('{"task": "glue/cola"}', "'references' is missing"),
        ('{"task": 3}', "'task' is 3"),
        (cola({"mcc": 0.0}, expected=[1]), r"'expected' is \[1\]"),
        (cola({"mcc": 0.0}, expected_other={"a": 1}), "'expected_other' has no cases by source"),
        (cola({"mcc": 0.0}, predictions={}), "of 'glue/cola': KeyError.'tiny'. while it was read"),
        (cola({"mcc": 0.0}, references={}), "KeyError.'all'."),
        (cola({"mcc": 0.0}, predictions={"tiny": 3}), "TypeError"),
        (cola({"mcc": 0.0}, task="glue/unheard-of"), "none has a case that is covered"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, text, message):
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        check_metrics(tmp_path)


def test_a_folder_without_golden_files_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no golden files"):
        check_metrics(tmp_path)


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("steve smith", ["Steve", "Smith's"], "Steve Smith"),
        ("1895", ["(1895-1943)."], "1895"),
        ("cafe lumiere", ["Café", "Lumière;"], "Café Lumière"),
        ("smit", ["Smith"], "Smit"),  # inside a word too
        ("jones", ["Steve", "Smith"], "Steve Smith"),  # not found: all words
        ("", ["Steve"], "Steve"),
        ("b", ["a\u200bb"], "a\u200bb"),  # a character went lost in splitting: all words
        ("東", ["(東京)"], "東"),
    ],
)
def test_pieces_are_projected_onto_words(text, words, expected):
    assert project(text, words, lower_case=True) == expected


def test_case_and_accents_stay_without_lower_case():
    assert project("Café", ["Café's"], lower_case=False) == "Café"
    assert project("cafe", ["Café's"], lower_case=False) == "Café's"


def test_a_mark_at_the_start_is_kept_by_one_and_not_by_the_other():
    assert joined_pieces(["##와", "협", "##약"], keep_first_mark=True) == "##와 협약"
    assert joined_pieces(["##와", "협", "##약"], keep_first_mark=False) == "와 협약"


def test_words_end_at_five_characters_only():
    text = "a\tb\u202fc d\u00a0e\n"
    assert blank_separated_words(text) == [("a", 0), ("b", 2), ("c", 4), ("d\u00a0e", 6)]


@pytest.mark.skipif(not KLUE.is_dir(), reason=f"no KLUE files at {KLUE}")
def test_lists_of_labels_are_those_of_the_official_files():
    relations = json.loads((KLUE / "re" / "relation_list.json").read_text(encoding="utf-8"))
    assert tuple(relations["relations"]) == RE.labels
    ontology = json.loads((KLUE / "wos" / "ontology.json").read_text(encoding="utf-8"))
    assert tuple(sorted(ontology)) == WOS.labels
