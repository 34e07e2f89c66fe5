"""The example of docs/embeddings.md trains an exported encoder and scores it."""

import re
from pathlib import Path

import pytest

from tests.benchmarks.records import write

PAGE = Path(__file__).parents[2] / "docs/embeddings.md"


@pytest.mark.filterwarnings("ignore")  # of the trainer
def test_the_example_trains_and_scores(tmp_path, model_folder, monkeypatch, capsys):
    code = re.search(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[1]
    code = code.replace("model/shipped/ko-modern/discriminator", str(model_folder))
    for split in ("train", "dev"):
        paragraphs = [
            {"context": f"{split} 문단 {n}", "qas": [{"question": f"{n}은 어디인가?"}]}
            for n in range(6)
        ]
        data = {"data": [{"paragraphs": [paragraph]} for paragraph in paragraphs]}
        write(tmp_path / f"data/klue-mrc-v1.1_{split}.json", data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    exec(code, {})
    assert 0 <= float(capsys.readouterr().out.split()[-1]) <= 1
    assert (tmp_path / "out/embed/final/modules.json").exists()
