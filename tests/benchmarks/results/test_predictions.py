"""Files of predictions: read as they were written, and refused where they are not whole."""

import pytest

from benchmarks.results.predictions import lines_of_result, read_predictions, write_lines
from tests.benchmarks.conftest import make_result

LINES = [{"id": f"dev-{n}", "gold": "사회", "prediction": None} for n in range(5)]


def test_lines_come_back_by_split(tmp_path):
    result = make_result()
    write_lines(tmp_path, result, {"dev": LINES, "test": LINES[:2]})
    assert lines_of_result(tmp_path, result) == LINES
    assert lines_of_result(tmp_path, result, "test") == LINES[:2]
    assert lines_of_result(tmp_path, result, "ax") is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.rpartition('{"id"')[0], "has 4 lines, its header says 5"),
        (lambda text: text.replace('"dev-3"', "dev-3"), "dev-0.jsonl|pretrained-0.jsonl"),
        (lambda text: text.partition("\n")[2], "does not begin with a header"),
        (lambda text: text[20:], "line 1 is damaged"),
        (lambda text: text.replace('"seed": 0', '"seed": 7'), "has seed 7, its result has 0"),
    ],
)
def test_predictions_that_are_not_whole_are_refused(tmp_path, damage, message):
    result = make_result()
    write_lines(tmp_path, result, {"dev": LINES})
    (path,) = tmp_path.rglob("*.jsonl")
    assert read_predictions(path)[0]["num_examples"] == 5
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        lines_of_result(tmp_path, result)
