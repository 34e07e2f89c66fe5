"""The self-test of the metrics against golden values of the official scorers."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.metrics.classification import (
    MetricFunction,
    accuracy,
    f1,
    macro_f1,
    mcc,
    mean_of_accuracy_and_f1,
)
from benchmarks.metrics.tagging import character_macro_f1, entity_macro_f1

RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE = 1e-6, 1e-9

# For each task of a golden file: the metric behind each name of `expected`, and of
# `expected_other`, with the file's scale: official scripts times 100, huggingface/evaluate 0..1.
_Expected = Mapping[str, tuple[MetricFunction, float]]
_ACCURACY: _Expected = {"accuracy": (accuracy, 100.0)}
_EXPECTED: dict[str, _Expected] = {
    "glue/cola": {"mcc": (mcc, 100.0)},
    "glue/sst2": _ACCURACY,
    "glue/qnli": _ACCURACY,
    "glue/rte": _ACCURACY,
    "glue/wnli": _ACCURACY,
    "glue/mnli_matched": _ACCURACY,
    "glue/mnli_mismatched": _ACCURACY,
    "glue/mrpc": _ACCURACY,
    "glue/qqp": _ACCURACY,
    "klue/ynat": {"macro_f1": (macro_f1, 100.0)},
    "klue/nli": _ACCURACY,
    "klue/ner": {
        "entity_macro_f1": (entity_macro_f1, 100.0),
        "character_macro_f1": (character_macro_f1, 100.0),
    },
}
_ACCURACY_F1: _Expected = {
    "accuracy": (accuracy, 1.0),
    "f1": (f1, 1.0),
    "mean_of_both_x100": (mean_of_accuracy_and_f1, 100.0),
}
_EXPECTED_OTHER: dict[str, _Expected] = {
    "glue/cola": {"matthews_correlation": (mcc, 1.0)},
    "glue/mrpc": _ACCURACY_F1,
    "glue/qqp": _ACCURACY_F1,
}


def check_metrics(directory: Path) -> int:
    """Run every golden file in `directory` whose metric the harness has; print `N agree, M differ`.

    Files of other metrics are named as not covered. Returns the exit code: 1 if any value differs.
    """
    paths = sorted(directory.glob("*.json"))
    if not paths:
        raise ValueError(f"no golden files (*.json) in {directory}; give the folder that has them")
    num_agree = num_differ = 0
    not_covered = []
    for path in paths:
        golden = _read_golden(path)
        names = _task_names(golden["task"])
        if any(name not in _EXPECTED for name in names):
            not_covered.append(path.name)
            continue
        agree, differ, unknown = _check_file(golden, names[0])
        num_agree, num_differ = num_agree + agree, num_differ + len(differ)
        print(f"{path.name}: {agree} agree, {len(differ)} differ")
        for line in differ:
            print(f"  {line}")
        if unknown:
            not_covered.append(f"{path.name} ({', '.join(unknown)})")
    for name in not_covered:
        print(f"{name}: not covered")
    print(f"{num_agree} agree, {num_differ} differ, {len(not_covered)} not covered")
    return 1 if num_differ else 0


def _read_golden(path: Path) -> dict[str, Any]:
    try:
        golden: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        golden["task"], golden["references"], golden["predictions"], golden["expected"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a golden metric file: {error!r}") from None
    return golden


def _task_names(task: str) -> list[str]:
    """'glue/mrpc,qqp' as 'glue/mrpc' and 'glue/qqp'."""
    suite, _, names = task.partition("/")
    return [f"{suite}/{name.strip()}" for name in names.split(",")]


def _check_file(golden: Mapping[str, Any], task: str) -> tuple[int, list[str], list[str]]:
    """Number of equal values, a line for each other one, and the names no metric stands for."""
    blocks = [(_EXPECTED[task], golden["expected"])]
    others = golden.get("expected_other", {})
    blocks += [(_EXPECTED_OTHER.get(task, {}), cases) for cases in others.values()]
    num_agree, differ, unknown = 0, [], set()
    for known, cases in blocks:
        for case, values in cases.items():
            for name, value in values.items():
                if name not in known:
                    unknown.add(name)
                    continue
                function, scale = known[name]
                ours = _score_case(golden, case, function)
                if _agree(ours, value, scale):
                    num_agree += 1
                else:
                    differ.append(f"{case} {name}: {value!r} expected, {ours!r} computed")
    return num_agree, differ, sorted(unknown)


def _score_case(golden: Mapping[str, Any], case: str, function: MetricFunction) -> float | None:
    """The metric of one case; None where the input is refused."""
    prediction, references = golden["predictions"][case], golden["references"]
    gold = references[prediction["ref"]] if isinstance(references, dict) else references
    try:
        return function(gold, prediction["pred"])
    except ValueError:
        return None


def _agree(ours: float | None, expected: Any, scale: float) -> bool:
    if isinstance(expected, dict):  # {"error": name}: the official scorer stops there
        return ours is None
    if ours is None:
        return False
    value = float(expected)  # "nan" is written as text
    if math.isnan(value):
        return math.isnan(ours)
    return math.isclose(ours * scale, value, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)
