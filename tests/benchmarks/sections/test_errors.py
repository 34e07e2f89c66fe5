"""Confusions and the worst examples of a task."""

import numpy as np
import pytest

from benchmarks.report import read_runs, report
from benchmarks.results.results import append_result
from benchmarks.sections.errors import TaskErrors, add_errors
from benchmarks.tasks.load import load_data
from electrify.page.page import Page
from tests.benchmarks.conftest import make_result, put_predictions, text_of
from tests.benchmarks.records import RTE, WOS, write


def label_line(task, number, gold, probabilities):
    predicted = task.labels[int(np.argmax(probabilities))]
    found = {"id": str(number), "gold": gold, "prediction": predicted}
    return found | {"probabilities": list(probabilities)}


def test_the_mean_error_over_seeds_decides_and_equals_stand_in_file_order():
    wrong_in_both, wrong_in_one, right = (0.1, 0.9), (0.4, 0.6), (0.9, 0.1)
    columns = [[right, wrong_in_one, wrong_in_both], [right, right, wrong_in_both]]
    runs = [[label_line(RTE, n, "entailment", p) for n, p in enumerate(of)] for of in columns]
    errors = TaskErrors("", RTE, runs)
    assert errors.worst() == [(2, 1.0), (1, 0.5)]
    other = RTE.labels[1]
    assert errors.confusions() == {("entailment", "entailment"): 3, ("entailment", other): 3}


@pytest.fixture
def run(tmp_path):
    """A partly evaluated run on RTE; the first rows are the most wrong."""
    rows = [f"{n}\tsecret {n} text\tb {n}\tentailment" for n in range(6)]
    for split in ("train", "dev"):
        lines = ["index\tsentence1\tsentence2\tlabel", *rows, ""]
        write(tmp_path / f"data/RTE/{split}.tsv", "\n".join(lines))
    fields = {"suite": "glue", "task": "glue-rte", "task_version": "1.0", "metric": "accuracy"}
    fields |= {"data_sha256": load_data(RTE, tmp_path / "data").sha256, "num_examples": 6}
    folder, result = tmp_path / "run" / "evaluate.partial", make_result(**fields)
    folder.mkdir(parents=True)
    chances = [(0.1 + n / 7, 0.9 - n / 7) for n in range(6)]
    of_rows = [label_line(RTE, f"dev-{n + 1}", "entailment", p) for n, p in enumerate(chances)]
    put_predictions(folder, result, of_rows)
    append_result(folder / "results.jsonl", result)
    return folder.parent


def test_texts_are_quoted_only_where_asked_for(tmp_path, run):
    for data_dirs, with_texts in (
        ([tmp_path / "elsewhere", tmp_path / "data"], True),
        ([tmp_path / "data"], False),
        ([], True),
    ):
        report(read_runs([run]), tmp_path / "out", data_dirs, with_texts)
        page, short = ((tmp_path / "out" / f"report.{form}").read_text() for form in ("html", "md"))
        assert ("secret 0 text" in page) == (bool(data_dirs) and with_texts)
        assert "dev-1" in page  # a wrong row, by its id
        assert ("secret 0 text" in short) == ("secret 0 text" in page)


def test_answers_are_not_quoted_either(tmp_path, monkeypatch):
    predictions = [{"id": "0", "gold": ["택시-종류-密"], "prediction": []}]
    found = [TaskErrors("", WOS, [predictions])]
    monkeypatch.setattr("benchmarks.sections.errors.errors_of", lambda *_: found)
    for with_texts in (True, False):
        page = Page("x")
        add_errors(page, None, (), with_texts)
        assert ("密" in text_of(page.markdown())) == with_texts
