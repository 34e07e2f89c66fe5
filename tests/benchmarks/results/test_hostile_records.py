"""Predictions, metrics and models that were damaged: refused, with file and row named."""

import pytest

from benchmarks.encoder import open_model
from benchmarks.results.predictions import read_predictions, write_predictions
from benchmarks.results.rescore import scores_of
from benchmarks.results.run_folder import read_run
from benchmarks.tasks.registry import TASKS

LINES = [{"id": "a", "gold": "정치", "prediction": "경제"}]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (0, '{"header": 3}'),
        (0, '{"header": {}}'),
        (1, "[]"),
        (1, '{"gold": "a"}'),
        (1, '{"id": ["a"]}'),
        (1, '{"id": "\\ud800"}'),
        (1, "[" * 100_000),
    ],
)
def test_predictions_of_another_form_are_refused(tmp_path, line, text):
    path = tmp_path / "a.jsonl"
    write_predictions(path, {"task": "klue-ynat"}, LINES)
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[line] = text
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.jsonl"):
        read_predictions(path)


@pytest.mark.parametrize(
    "line", [{"gold": "정치"}, {"gold": "정치", "prediction": "x"}, {"gold": [], "prediction": {}}]
)
def test_lines_that_are_none_of_the_task_name_the_place(tmp_path, line):
    with pytest.raises(ValueError, match="its predictions do not fit klue-ynat"):
        scores_of(TASKS["klue-ynat"], "dev", {"dev": [{"id": "a", **line}]}, tmp_path)


def test_a_record_that_is_no_object_names_its_line(tmp_path):
    path = tmp_path / "pretrain.partial" / "metrics.jsonl"
    path.parent.mkdir()
    path.write_text('{"kind": "train"}\n3\n{"kind": "train"}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2 is damaged"):
        read_run(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", ["[]", "{"])
def test_a_model_folder_with_a_damaged_file_is_named(model_folder, tmp_path, name, content):
    for path in model_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"cannot read a model at {tmp_path}"):
        open_model(str(tmp_path))
