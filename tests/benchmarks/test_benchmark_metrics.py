import json
import math

import numpy as np
import pytest
from sklearn import metrics as reference

from benchmarks.golden.check import check_metrics
from benchmarks.metrics import classification as metrics


@pytest.fixture
def labels():
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 5, 400)
    return gold, np.where(rng.random(400) < 0.6, gold, rng.integers(0, 5, 400))


def test_agree_with_scikit_learn(labels):
    gold, predicted = labels
    assert metrics.accuracy(gold, predicted) == reference.accuracy_score(gold, predicted)
    assert metrics.macro_f1(gold, predicted) == pytest.approx(
        reference.f1_score(gold, predicted, average="macro")
    )
    assert metrics.mcc(gold, predicted) == pytest.approx(
        reference.matthews_corrcoef(gold, predicted)
    )


def test_macro_f1_leaves_absent_classes_out_and_counts_predicted_ones():
    # classes 2 and 3 in gold, 6 only predicted: F1 are 1, 2/3 and 0; 0, 1, 4, 5 do not count
    assert metrics.macro_f1([2, 3, 2, 3], [2, 3, 2, 6]) == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert metrics.macro_f1([5, 5], [5, 5]) == 1.0


def test_mcc_by_the_formula_of_two_classes():
    gold = [1] * 6 + [0] * 4
    predicted = [1, 1, 1, 1, 0, 0, 0, 0, 0, 1]  # tp 4, fn 2, tn 3, fp 1
    expected = (4 * 3 - 1 * 2) / math.sqrt((4 + 1) * (4 + 2) * (3 + 1) * (3 + 2))
    assert metrics.mcc(gold, predicted) == pytest.approx(expected)


@pytest.mark.parametrize("labels", [([1, 1, 1], [0, 1, 0]), ([0, 1, 0], [1, 1, 1])])
def test_mcc_is_zero_with_one_class(labels):
    assert metrics.mcc(*labels) == 0.0


def test_f1_is_of_label_one_with_predictions_counted_as_predictions():
    # tp 2, fp 2, fn 1: precision 1/2, recall 2/3
    assert metrics.f1([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 0]) == pytest.approx(4 / 7)
    assert metrics.f1([0, 0], [0, 0]) == 0.0
    assert metrics.mean_of_accuracy_and_f1([1, 0], [1, 1]) == pytest.approx((0.5 + 2 / 3) / 2)


@pytest.mark.parametrize(
    "metric",
    [metrics.accuracy, metrics.macro_f1, metrics.mcc, metrics.f1, metrics.mean_of_accuracy_and_f1],
)
def test_no_rows_are_nan_and_unequal_rows_refused(metric):
    assert math.isnan(metric([], []))
    with pytest.raises(ValueError, match=r"\(2,\) and predictions \(1,\)"):
        metric([0, 1], [0])


def golden(value, task="glue/cola", **more):
    predictions = {"tiny": {"ref": "all", "pred": [1, 0, 0, 1]}}
    return {
        "task": task,
        "references": {"all": [0, 1, 1, 0]},
        "predictions": predictions,
        "expected": {"tiny": {"mcc": value}},
    } | more


def test_check_metrics_counts_and_names_what_it_cannot_check(tmp_path, capsys):
    other = {"scorer (0..1)": {"tiny": {"matthews_correlation": -1.0}}}
    (tmp_path / "cola.json").write_text(json.dumps(golden(-100.0, expected_other=other)))
    (tmp_path / "ax.json").write_text(json.dumps(golden(1.0, task="glue/ax")))
    assert check_metrics(tmp_path) == 0
    printed = capsys.readouterr().out
    assert "ax.json: not covered" in printed
    assert printed.endswith("2 agree, 0 differ, 1 not covered\n")


def test_check_metrics_fails_on_a_wrong_value(tmp_path, capsys):
    (tmp_path / "cola.json").write_text(json.dumps(golden(-99.0)))
    assert check_metrics(tmp_path) == 1
    assert "tiny mcc: -99.0 expected" in capsys.readouterr().out


def test_check_metrics_reads_nan_and_errors_as_such(tmp_path, capsys):
    file = {
        "task": "klue/ynat",
        "references": {"none": [], "one": [1]},
        "predictions": {
            "empty": {"ref": "none", "pred": []},
            "missing": {"ref": "one", "pred": []},
            "not_empty": {"ref": "one", "pred": [1]},
        },
        "expected": {
            "empty": {"macro_f1": "nan"},
            "missing": {"macro_f1": {"error": "ValueError"}},
            "not_empty": {"macro_f1": "nan"},
        },
    }
    (tmp_path / "ynat.json").write_text(json.dumps(file))
    assert check_metrics(tmp_path) == 1
    assert "2 agree, 1 differ" in capsys.readouterr().out


def test_check_metrics_refuses_a_folder_without_golden_files(tmp_path):
    with pytest.raises(ValueError, match="no golden files"):
        check_metrics(tmp_path)
    (tmp_path / "broken.json").write_text('{"task": "glue/cola"}')
    with pytest.raises(ValueError, match=r"broken\.json is not a golden metric file"):
        check_metrics(tmp_path)
