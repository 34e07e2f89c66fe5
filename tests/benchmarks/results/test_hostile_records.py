"""Task files, predictions, grids and golden values by hand: refused, with file and row named."""

import json
from dataclasses import replace

import pytest

from benchmarks.ablate.grid import load_grid
from benchmarks.encoder import open_model
from benchmarks.golden.check import check_file, find_adapter, read_golden
from benchmarks.results.predictions import read_predictions, write_predictions
from benchmarks.results.rescore import scores_of
from benchmarks.results.run_folder import read_run
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.texts import dump_texts

GRID = """name = "grid"
base = "base.toml"
[variants.small]
"seed" = 1
"""
BASE = """name = "a"
output_dir = "out"
[clean]
sources = [{ kind = "text", language = "en", path = "a.txt" }]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"grid"', '"../../grid"', "name: .*'../../grid'"),
        ('"grid"', "3", "name: .*not 3"),
        ('"base.toml"', "3", "base: .*not 3"),
        ('"base.toml"', f'"{"a" * 5000}"', "variant 'small'"),
        ("[variants.small]\n", "[variants]\n", "variants.seed"),
        ("= 1", "= 1979-05-27", "no JSON"),
        ("= 1", f"= {'1' * 5000}", "not valid TOML"),
    ],
    ids=["out of the folder", "number", "base", "long base", "no table", "date", "digits"],
)
def test_a_grid_of_another_form_is_refused(tmp_path, old, new, message):
    (tmp_path / "base.toml").write_text(BASE)
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    load_grid(path)
    path.write_text(GRID.replace(old, new))
    with pytest.raises(ValueError, match=f"(?s)grid.toml.*{message}"):
        load_grid(path)


def _examples(name, path):
    return list(TASKS[name].read("train", path))


def test_half_a_surrogate_pair_in_a_task_file_is_refused(tmp_path):
    """No tokenizer takes it."""
    path = tmp_path / "a.json"
    row = {"guid": "a", "title": "국회 \ud800", "label": "정치"}
    path.write_text(json.dumps([row]))
    with pytest.raises(ValueError, match=r"a\.json holds '\\ud800'"):
        _examples("klue-ynat", path)


def test_a_csv_cell_beyond_the_limit_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,question1,question2,is_duplicate\n" + "a" * 200_000)
    with pytest.raises(ValueError, match=r"a\.csv is not valid CSV"):
        _examples("korean-question-pair", path)
    with pytest.raises(ValueError, match=r"a\.csv is not valid CSV"):
        dump_texts([str(path)], None, tmp_path / "out")


def test_texts_to_decontaminate_by_are_text(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('["a", "\\ud800"]')
    with pytest.raises(ValueError, match=r"a\.json holds '\\ud800'"):
        dump_texts([str(path)], None, tmp_path / "out")


def test_a_head_of_thousands_of_digits_is_no_word(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(f"## a\tx\n1\tx\tx\tSL\t{'1' * 5000}\tNP\n\n")
    with pytest.raises(ValueError, match=r"a\.tsv line 2: HEAD is"):
        _examples("klue-dp", path)


LINES = [{"id": "a", "gold": "정치", "prediction": "경제"}]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (0, "false"),
        (0, '{"header": 3}'),
        (0, '{"header": {}}'),
        (1, "3"),
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
    with pytest.raises(ValueError, match="its predictions are none of klue-ynat"):
        scores_of(TASKS["klue-ynat"], "dev", {"dev": [{"id": "a", **line}]}, tmp_path)


def test_a_record_that_is_no_object_names_its_line(tmp_path):
    path = tmp_path / "pretrain.partial" / "metrics.jsonl"
    path.parent.mkdir()
    path.write_text('{"kind": "train"}\n3\n{"kind": "train"}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2 is damaged"):
        read_run(tmp_path)


def _golden(tmp_path, **changes):
    path = tmp_path / "a.json"
    content = {
        "task": "glue/qqp",
        "references": {"default": [0, 1]},
        "predictions": {"a": {"ref": "default", "pred": [0, 1]}},
        "expected": {"a": {"accuracy": 100.0}},
    }
    path.write_text(json.dumps(content | changes))
    golden = read_golden(path)
    return check_file(path, golden, find_adapter(golden["task"]))


def test_an_expected_number_beyond_floats_differs(tmp_path):
    check = _golden(tmp_path, expected={"a": {"accuracy": 10**400}})
    assert list(check.differ) == ["a"]


def test_a_golden_number_beyond_floats_names_the_file(tmp_path):
    with pytest.raises(ValueError, match=r"a\.json is not a golden file"):
        _golden(
            tmp_path,
            task="confidence intervals and significance",
            references={},
            predictions={"items/a": [0, 10**400]},
            expected={"items/a": {"mean_stderr": 1.0}},
        )


@pytest.mark.parametrize("iters", [2**31, -1, "many", [1]])
def test_resamples_without_end_are_not_drawn(tmp_path, iters):
    check = _golden(
        tmp_path,
        task="confidence intervals and significance",
        references={},
        predictions={"bootstrap/a": [[0, 1], [1, 1]]},
        expected={"bootstrap/a": {"iters": iters, "f1_stderr": 0.1}},
    )
    assert list(check.differ) == ["bootstrap/a"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", ["[]", "{", '{"model_type": "electra", "hidden_size": [1]}'])
def test_a_model_folder_with_a_damaged_file_is_named(model_folder, tmp_path, name, content):
    for path in model_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"cannot read a model at {tmp_path}"):
        open_model(str(tmp_path))


def test_the_harness_finds_files_inside_the_data_folder_alone(tmp_path):
    """Names of tasks are those of the registry; a name of a file does not lead out."""
    from benchmarks.tasks.data import find_files

    (tmp_path / "data").mkdir()
    (tmp_path / "secret.tsv").write_text("x")
    task = replace(TASKS["glue-cola"], files={"train": ("../secret.tsv",)})
    assert find_files(task, "train", tmp_path / "data") == []
