"""The score of a text, and where it comes from."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from electrify.config.clean import CleanConfig, Source
from pipeline.document import DocumentRules
from pipeline.rules.quality_model import fit, parse, read_text, run_shares
from pipeline.train_quality import train_quality


def texts(words: str, number: int = 120) -> list[str]:
    draw = random.Random(words)
    return [" ".join(draw.choices(words.split(), k=12)) + f" {n}" for n in range(number)]


GOOD, BAD = (
    texts("오늘 우리는 함께 공원에서 책을 읽었다"),
    texts("카지노 쿠폰 즉시 지급 먹튀 검증 입금"),
)


def test_runs_are_counted_in_folded_texts():
    """Against a dictionary of the runs of two to four characters."""
    text = "Ab  12\n가 ab"
    folded = "ab 00 가 ab"
    runs = [folded[i : i + n] for n in (2, 3, 4) for i in range(len(folded) - n + 1)]
    wanted = sorted(np.sqrt(runs.count(run) / len(runs)) for run in set(runs))
    classes, shares = run_shares(text)
    assert len(classes) == len(set(runs))  # no two of so few share a class
    assert sorted(shares / 2**20) == pytest.approx(wanted, abs=1e-6)
    assert [of.tolist() for of in run_shares("x")] == [[], []]


def test_a_score_is_that_of_the_regression_in_eight_bits():
    model = fit(GOOD, BAD, 10.0)
    for text in (GOOD[0], BAD[0], ""):
        classes, shares = run_shares(text)
        logit = model.unit * float(model.weights[classes] @ (shares / 2**20)) + model.intercept
        assert model.score(text) == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-5)
    assert min(map(model.score, GOOD)) > 0.5 > max(map(model.score, BAD))


def write(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(json.dumps({"text": line}) for line in lines), encoding="utf-8")
    return str(path)


def test_what_was_trained_is_read_again_and_limits_documents(tmp_path, capsys):
    files = write(tmp_path / "good.jsonl", GOOD), write(tmp_path / "bad.jsonl", BAD)
    path = tmp_path / "quality.json"
    train_quality([files[0]], [files[1]], path)
    assert (
        "min_quality = 0.5: keeps 100.0 % of the good and 0.0 % of the bad"
        in capsys.readouterr().out
    )
    text = read_text(str(path))
    assert json.loads(text)["held_out_auc"] == 1
    source = Source(kind="jsonl", language="ko", path="x")
    config = CleanConfig(sources=(source,), quality={"min_quality": 0.5}, quality_model=str(path))
    rules = DocumentRules(source, config.with_files({}, text))
    scores = [rules.statistics(rules.clean(of).text)["quality"] for of in (GOOD[0], BAD[0])]
    assert scores == [parse(text).score(of) for of in (GOOD[0], BAD[0])]
    assert rules.limits()["min_quality"] == 0.5


def test_without_a_model_there_is_no_score_and_no_limit():
    source = Source(kind="jsonl", language="ko", path="x")
    assert DocumentRules(source, CleanConfig(sources=(source,))).statistics("글")["quality"] is None
    with pytest.raises(ValueError, match=r"min_quality needs clean\.quality_model"):
        CleanConfig(sources=(source,), quality={"min_quality": 0.5})


def test_few_texts_and_other_files_are_refused(tmp_path, caplog):
    files = write(tmp_path / "good.jsonl", GOOD[:20]), write(tmp_path / "bad.jsonl", BAD)
    with pytest.raises(ValueError, match="20 texts are too few"):
        train_quality([files[0]], [files[1]], tmp_path / "quality.json")
    with pytest.raises(ValueError, match="no file of `electrify train-quality`"):
        read_text(files[0])
    with pytest.raises(ValueError, match="give files named"):
        train_quality([str(tmp_path / "x.bin")], [files[1]], tmp_path / "quality.json")
    with pytest.raises(ValueError, match=r"^'.*none\.jsonl' matches no file"):
        train_quality([str(tmp_path / "none.jsonl")], [files[1]], tmp_path / "quality.json")
    (tmp_path / "body.jsonl").write_text('{"body": "글 하나"}\n' * 3)
    with pytest.raises(ValueError, match="0 texts are too few"):
        train_quality([str(tmp_path / "body.jsonl")], [files[1]], tmp_path / "quality.json")
    assert "no field 'text' (there are: body)" in caplog.text
