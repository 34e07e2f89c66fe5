"""The fine-tuning benchmark: its data, its clock, its peer, its figures."""

import importlib.util
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.finetune.recipe import hyper_parameters
from benchmarks.tasks.kinds.classification import LabelExample
from benchmarks.tasks.klue import NLI, YNAT
from benchmarks.throughput.__main__ import main
from benchmarks.throughput.finetune import finetune as bench
from benchmarks.throughput.finetune.finetune import (
    OURS,
    PEER,
    PEER_BY_LENGTH,
    PEER_IN_FP32,
    Run,
    Settings,
    measure,
    random_model,
    system_rows,
    tokenized,
)
from benchmarks.throughput.finetune.peer import finetune_with_trainer, require_trainer

has_trainer = importlib.util.find_spec("accelerate") is not None
needs_trainer = pytest.mark.skipif(
    not has_trainer, reason="the Trainer of transformers needs the package accelerate"
)
CPU = torch.device("cpu")


def examples_of(task, count):
    """Rows of twenty words each, by another label in turn."""
    rng = np.random.default_rng(3)
    words = [f"{a}{b}" for a in "가나다라" for b in "국물산길"]
    return [
        LabelExample(
            str(n), tuple(" ".join(rng.choice(words, 20)) for _ in task.text_fields), n % 3
        )
        for n in range(count)
    ]


@pytest.fixture
def small(ynat_folder):
    def make(with_peer=False, **more):
        chosen = {"seeds": (0, 1), "num_train": 70, "num_reported": 30, "num_epochs": 2.0}
        chosen |= {"data_dir": ynat_folder, "tasks": ("klue-ynat",), "device": "cpu"}
        return Settings(with_peer=with_peer, **(chosen | more))

    return make


def test_ours_alone_is_measured(small):
    report = measure(small())
    (table,) = report.tables.values()
    assert table.meaning.startswith("64 training rows of one text")  # whole batches
    assert ", 4 steps;" in table.meaning
    (ours,) = table.rows
    assert ours["system"] == OURS
    assert ours["examples_per_second"] > 0
    assert 0 <= ours["mean_macro_f1"] <= 1
    assert "ours_is_times_as_fast" not in ours
    json.dumps(report.as_json(), allow_nan=False)
    assert "64 training rows" in report.markdown()


@needs_trainer
def test_every_system_is_measured_on_every_seed(small):
    report = measure(small(with_peer=True, num_train=64, num_epochs=1.0, precision="bf16"))
    for table in report.tables.values():
        names = [row["system"] for row in table.rows]
        assert names == [OURS, PEER, PEER_BY_LENGTH, PEER_IN_FP32]
        assert all(0 <= row["mean_macro_f1"] <= 1 for row in table.rows)
        assert all(row["ours_is_times_as_fast"] > 0 for row in table.rows[1:])


@needs_trainer
@pytest.mark.parametrize(("task", "by_length"), [(YNAT, True), (NLI, False)])
def test_the_peer_ends_where_ours_does_if_a_batch_is_all_rows(task, by_length, small, monkeypatch):
    """Then neither order nor dropout parts them: schedule, clipping and AdamW are the same.

    All rows are cut to one length, since ours sorts by length over epochs.
    """
    monkeypatch.setattr("benchmarks.tasks.heads.linear.HEAD_DROPOUT", 0.0)
    settings = small(num_train=32, num_epochs=20.0, learning_rate=1e-3, precision="fp32")
    rows = examples_of(task, 40)
    long = rows[:32]
    reported = [
        replace(row, texts=tuple(text[: 4 * n + 4] for text in row.texts))
        for n, row in enumerate(rows)
    ]
    model = random_model("tiny", [text for row in rows for text in row.texts])
    data = tokenized(task, long, reported, model, 12)
    given = replace(hyper_parameters(task, settings.options(), 64), dropout=0.0)
    assert set(data.train.features.lengths.tolist()) == {12}
    lengths = data.predicted["reported"].features.lengths
    assert not by_length or len(set(lengths.tolist())) > 3
    state = torch.random.get_rng_state()
    ours = bench.finetune(data, model, "random-init", 5, given).lines["reported"]
    steps = []
    peers = finetune_with_trainer(
        data, model, "random-init", 5, given, "cpu", steps.append, by_length
    )
    assert steps == [32] * 20
    assert torch.equal(torch.random.get_rng_state(), state)
    untrained = bench.finetune(
        data, model, "random-init", 5, replace(given, learning_rate=1e-12)
    ).lines["reported"]
    probabilities = [
        np.array([line["probabilities"] for line in lines]) for lines in (ours, peers, untrained)
    ]
    assert np.abs(probabilities[0] - probabilities[1]).max() < 2e-5
    assert np.abs(probabilities[0] - probabilities[2]).max() > 1e-2


def test_the_peer_is_refused_where_its_package_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="needs the package accelerate"):
        require_trainer()
    assert main(["finetune", "--peer"]) == 1
    assert "pip install accelerate" in capsys.readouterr().err


def rows_of(ours, peer, rates=((100.0, 120.0), (50.0, 80.0))):
    def runs(values, of):
        pairs = enumerate(zip(values, of, strict=True))
        return [Run(n, value, rate, rate) for n, (value, rate) in pairs]

    return system_rows("accuracy", {OURS: runs(ours, rates[0]), PEER: runs(peer, rates[1])})


def test_ratios_are_medians_over_seeds_and_scores_are_paired_by_seed():
    ours, peer = rows_of((0.80, 0.82), (0.81, 0.83))
    assert peer["ours_is_times_as_fast"] == (100 / 50 + 120 / 80) / 2
    assert peer["ours_less_it"] == pytest.approx(-0.01)
    assert peer["verdict"] == "cannot tell apart"
    assert ours["mean_accuracy"] == pytest.approx(0.81)
    assert rows_of((0.8, 0.81), (0.9, 0.91))[1]["verdict"] != "cannot tell apart"
    assert "two seeds" in rows_of((0.8,), (0.8,), ((1.0,), (1.0,)))[1]["verdict"]
    assert "undefined" in rows_of((0.8, math.nan), (0.8, 0.8))[1]["verdict"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "31"], "fewer than two steps"),
        (["--data-dir", ".", "--tasks", "klue-ner"], "compares classification alone"),
        (["--data-dir", ".", "--tasks", "klue-nlj"], "did you mean klue-nli"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments, message, capsys):
    assert main(["finetune", *arguments]) == 1
    assert message in capsys.readouterr().err
