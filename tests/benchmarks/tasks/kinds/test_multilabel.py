"""Several labels a text: reading, learning, scoring."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.metrics import weighted
from benchmarks.metrics.classification import (
    exact_match,
    label_set_macro_f1,
    label_set_micro_f1,
)
from benchmarks.tasks.data import load_data
from benchmarks.tasks.errors import parts_of
from benchmarks.tasks.kinds.classification import MultiLabelClassification
from benchmarks.tasks.own import own_task, record_of, task_of_record
from electrify.config.evaluate import OwnTask

ROWS = [
    {
        "text": f"{n}번째 글입니다",
        "labels": [name for bit, name in enumerate("가나다") if n >> bit & 1],
    }
    for n in range(16)
]


@pytest.fixture
def task(tmp_path: Path) -> MultiLabelClassification:
    path = tmp_path / "insults.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS), encoding="utf-8")
    made = own_task(OwnTask(train=str(path)))
    assert isinstance(made, MultiLabelClassification)
    return made


def test_lists_of_names_beside_a_text_are_several_labels(task: MultiLabelClassification):
    assert (task.labels, task.text_fields) == (("가", "나", "다"), ("text",))
    record = record_of(task)
    assert record
    assert record["kind"] == "multi-label"
    assert task_of_record(record) == task
    data = load_data(task, Path())
    examples = {example.texts[0]: example for example in (*data.train, *data.reported)}
    for row in ROWS:  # a row without a label is one, too
        expected = tuple(task.labels.index(name) for name in row["labels"])
        assert examples[str(row["text"])].gold == expected


def random_sides() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    gold, predicted = rng.random((2, 40, 5)) < 0.3
    gold[:, 4] = predicted[:, 4] = False  # a label that nobody names
    return gold, predicted


@pytest.mark.parametrize("metric", [label_set_macro_f1, label_set_micro_f1, exact_match])
def test_a_sample_scores_as_its_rows_repeated(metric):
    gold, predicted = random_sides()
    counts = np.random.default_rng(1).integers(0, 3, (5, len(gold))).astype(float)
    scores = weighted.OF_LABEL_SETS[metric.__name__](gold, predicted)(counts)
    for score, of_row in zip(scores, counts.astype(int), strict=True):
        repeated = (np.repeat(side, of_row, axis=0) for side in (gold, predicted))
        assert score == pytest.approx(metric(*repeated))


def test_labels_above_one_half_are_predicted(task: MultiLabelClassification):
    (example, *_) = (e for e in load_data(task, Path()).train if e.gold == (0, 2))
    outputs = {"logits": np.array([2.0, 0.1, -1.0], dtype=np.float32)}
    (line,) = task.lines([example], None, [outputs])  # type: ignore[arg-type]
    assert (line["gold"], line["prediction"]) == (["가", "다"], ["가", "나"])
    scores = task.score([line])
    assert scores["label_set_micro_f1"] == pytest.approx(0.5)
    assert scores["exact_match"] == 0
    assert [(part.gold, part.predicted) for part in parts_of(task, line)] == [
        ("가", "가"),
        ("", "나"),
        ("다", ""),
    ]
