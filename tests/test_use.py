"""What docs/use.md shows is run, with few steps and a tiny encoder in place of the shipped one."""

import csv
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from transformers import ElectraForPreTraining

import electrify
from electrify.cli import main
from tests.benchmarks.conftest import save_electra

PAGE = (Path(__file__).parents[1] / "docs/use.md").read_text(encoding="utf-8")
SHIPPED = "model/shipped/ko-modern/discriminator"
FEW = ["evaluate.min_steps=2", "evaluate.num_epochs=0.1", "evaluate.device=cpu"]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the lines of shell were run; without network and checkout."""
    folder = tmp_path_factory.mktemp("use")
    save_electra(folder / SHIPPED, ElectraForPreTraining, 1, num_layers=1)
    rows = [("id", "title"), (1, "국회가 새 예산안을 의결했다"), (2, "대표팀이 결승에 올랐다")]
    with (folder / "headlines.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    (folder / "headlines.txt").write_text(f"{rows[1][1]}\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in blocks("sh")[0].splitlines():
            verb, *words = shlex.split(line, comments=True)[1:]
            few = [word for key in FEW for word in ("--set", key)] if verb == "finetune" else []
            assert main([verb, *words, *few]) == 0
    return folder


def test_the_lines_of_shell_make_a_folder_and_predictions(place: Path) -> None:
    with (place / "said.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["1", "2"]
    assert len((place / "said.jsonl").read_text(encoding="utf-8").splitlines()) == 140
    assert (place / "out/headlines/onnx/model.onnx").is_file()


@pytest.mark.parametrize("block", blocks("python"))
def test_the_python_is_run(block: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    whole = electrify.finetune

    def few(*words: Any, **given: Any) -> Path:
        return whole(*words, **given | {"overrides": FEW})

    monkeypatch.setattr("electrify.api.finetune", few)
    exec(block, {})


@pytest.mark.filterwarnings("ignore")  # of the trainer
def test_sentence_embeddings_are_trained_and_scored(place, tmp_path, monkeypatch, capsys):
    (code,) = blocks("py")
    for name in ("pairs.csv", "dev-pairs.csv"):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            rows = [(f"{n}은 어디인가?", f"{name} 문단 {n}") for n in range(6)]
            csv.writer(file).writerows([("anchor", "positive"), *rows])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    exec(code.replace(SHIPPED, str(place / SHIPPED)), {})
    assert 0 <= float(capsys.readouterr().out.split()[-1]) <= 1
    assert (tmp_path / "out/embed/final/modules.json").exists()
