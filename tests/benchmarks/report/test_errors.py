import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.report.errors import TaskErrors
from benchmarks.report.report import read_runs, report
from benchmarks.results.results import append_result, percent
from benchmarks.tasks.errors import failure_of, parts_of
from benchmarks.tasks.load import load_data
from tests.benchmarks.conftest import make_result, put_predictions
from tests.benchmarks.records import DP, NAVER_NER, NER, RTE, SQUAD_1, SQUAD_2, WOS, YNAT, lines_of


def errors_in(task, runs, control=None, with_texts=True):
    return TaskErrors("", task, runs, control or {}, with_texts=with_texts)


def label_line(task, number, gold, probabilities):
    predicted = task.labels[int(np.argmax(probabilities))]
    return {
        "id": str(number),
        "gold": gold,
        "prediction": predicted,
        "probabilities": list(probabilities),
    }


@pytest.mark.parametrize(("task", "metric"), [(YNAT, "macro_f1"), (NER, "entity_macro_f1")])
def test_f1_by_label_is_what_the_metrics_average(task, metric):
    lines = lines_of(task, np.random.default_rng(1), 100)
    f1s = [score.value for score in errors_in(task, {0: lines}).labels]
    assert np.mean(f1s) == pytest.approx(task.score(lines)[metric], abs=1e-12)


def test_counts_by_label_are_those_of_the_lines():
    lines = lines_of(YNAT, np.random.default_rng(1), 300)
    scores = errors_in(YNAT, {0: lines}).labels
    gold = Counter(line["gold"] for line in lines)
    right = Counter(line["gold"] for line in lines if line["gold"] == line["prediction"])
    said = Counter(line["prediction"] for line in lines)
    assert [score.name for score in scores] == [label for label in YNAT.labels if said[label]]
    for score in scores:
        label, num_gold, num_predicted, precision, recall, f1, f1_range, random_f1 = (
            score.row.values()
        )
        name = score.name
        assert label == YNAT.label_names.get(name, name)
        assert score.count == num_gold == gold[name]
        assert num_predicted == said[name]
        assert precision == percent(right[name] / said[name], 1)
        assert recall == (percent(right[name] / gold[name], 1) if gold[name] else "–")
        assert (f1_range, random_f1) == (f"{f1} to {f1}", "–")


@pytest.mark.parametrize(
    ("task", "metric"), [(NAVER_NER, "seqeval_micro_f1"), (WOS, "pooled_slot_f1"), (DP, "las")]
)
def test_parts_are_those_that_the_metric_counts(task, metric):
    lines = lines_of(task, np.random.default_rng(2), 80)
    parts = [part for line in lines for part in parts_of(task, line)]
    claimed = sum(bool(part.gold) + bool(part.predicted) for part in parts)
    if metric == "las":
        claimed = 2 * len(parts)
    f1 = 2 * sum(part.is_right for part in parts) / claimed
    assert f1 == pytest.approx(task.score(lines)[metric])


def test_the_worst_are_wrong_by_the_median_of_the_seeds_and_the_surest_come_first():
    sure, unsure, outlier = (0.1, 0.9), (0.4, 0.6), (0.95, 0.05)
    by_seed = zip(
        [sure, sure, unsure],  # wrong in all, median 0.9
        [outlier, outlier, sure],  # right in most
        [unsure, unsure, unsure],
        [sure, sure, outlier],  # wrong in most, median 0.9: after the first, file order
        strict=False,
    )
    runs = {
        seed: [label_line(RTE, number, "entailment", p) for number, p in enumerate(column)]
        for seed, column in enumerate(by_seed)
    }
    found = errors_in(RTE, runs).worst
    assert [wrong.id for wrong in found] == ["0", "3", "2"]
    assert [wrong.num_seeds for wrong in found] == [3, 2, 3]
    assert found[0].failure.severity == 0.9
    assert found[0].failure.certainty == "not_entailment: 0.900, entailment: 0.100"
    two = [runs[seed][1] for seed in (0, 2)]  # half of the runs right is not mostly wrong
    assert failure_of(RTE, two, None) is None


def question(number, gold, said, odds, best=0.5):
    prediction = "" if odds > SQUAD_2.null_threshold else said
    return {
        "id": str(number),
        "gold": gold,
        "prediction": prediction,
        "answer": said,
        "null_odds": odds,
        "n_best": [[said, best], ["another", 1 - best]],
    }


def test_answers_are_wrong_unless_they_match_when_normalised():
    lines = [
        question(0, ["The Cat", "cat"], "a CAT!", -9.0),
        question(1, ["cat"], "dog", -9.0, best=0.8),
        question(2, [], "dog", -9.0, best=0.6),
        question(3, ["cat"], "cat", 4.0),
        question(4, [], "dog", 4.0),
    ]
    found = errors_in(SQUAD_2, {0: lines}).worst
    assert [wrong.id for wrong in found] == ["3", "1", "2"]
    assert found[0].failure.severity == pytest.approx(1 / (1 + math.exp(-4)))
    assert found[0].failure.prediction == "(no answer)"
    assert found[2].failure.gold == "(no answer)"
    assert "“dog” 0.800" in found[1].failure.certainty
    counts = errors_in(SQUAD_2, {0: lines}).confusions
    assert counts["answer", "answer"] == 2
    assert counts["no answer", "answer"] == counts["answer", "no answer"] == 1
    assert errors_in(SQUAD_1, {0: lines}).confusions == {}


def make_run(folder: Path, data: Path, texts: list[str], num_seeds: int = 3) -> Path:
    """A partly evaluated run: half of RTE is wrong for every seed, surest in the first row."""
    rows = [f"{n}\t{text}\tb {n}\tentailment" for n, text in enumerate(texts)]
    (data / "RTE").mkdir(parents=True)
    header = "index\tsentence1\tsentence2\tlabel"
    for split in ("train", "dev"):
        (data / "RTE" / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    sha256 = load_data(RTE, data).sha256
    place = folder / "evaluate.partial"
    place.mkdir(parents=True)
    for seed in range(num_seeds):
        lines = [
            label_line(RTE, number, "entailment", (0.2, 0.8) if number % 2 == 0 else (0.9, 0.1))
            for number in range(len(texts))
        ]
        for number, line in enumerate(lines, start=1):
            line["id"] = f"dev-{number}"
        lines[0]["probabilities"] = [0.01, 0.99]
        result = make_result(
            suite="glue",
            task="glue-rte",
            task_version="1.0",
            metric="accuracy",
            seed=seed,
            data_sha256=sha256,
            num_examples=len(lines),
        )
        put_predictions(place, result, lines)
        append_result(place / "results.jsonl", result)
    return folder


def test_texts_are_quoted_only_where_asked_for(tmp_path):
    texts = [f"secret {number} text" + " more" * number for number in range(6)]
    run = make_run(tmp_path / "run", tmp_path / "data", texts)
    for data_dirs, with_texts in (
        ([tmp_path / "elsewhere", tmp_path / "data"], True),
        ([tmp_path / "data"], False),
        ([], True),
    ):
        report(read_runs([run]), tmp_path / "out", data_dirs, with_texts)
        page, short = ((tmp_path / "out" / f"report.{form}").read_text() for form in ("html", "md"))
        assert ("secret 0 text" in page) == (bool(data_dirs) and with_texts)
        assert "dev-1" in page  # the surest wrong row, by its id
        assert "secret" not in short


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        (
            NER,
            [
                {**line, "text": "密" * len(line["text"])}
                for line in lines_of(NER, np.random.default_rng(1), 20)
            ],
        ),
        (SQUAD_2, [question(0, ["密"], "密密", -9.0)]),
        (WOS, [{"id": "0", "gold": ["택시-종류-密"], "prediction": []}]),
    ],
)
def test_answers_are_not_quoted_either(task, lines):
    assert any("密" in wrong.failure.gold for wrong in errors_in(task, {0: lines}).worst)
    unquoted = errors_in(task, {0: lines}, with_texts=False).worst
    assert unquoted
    assert "密" not in repr(unquoted)
