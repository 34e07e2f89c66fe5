"""Micro-batches, memory that does not suffice, constant gold values."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import benchmarks.training.trainer
from benchmarks.tasks.load import load_data
from benchmarks.tasks.task import GoldExample
from benchmarks.training.network import build_network
from benchmarks.training.trainer import Trainer
from tests.benchmarks.conftest import split_of
from tests.benchmarks.records import NAVER_NER, NER, SQUAD_2, STSB, WOS, YNAT


@pytest.fixture
def features(ynat_folder, tokenizer):
    return split_of(YNAT, load_data(YNAT, ynat_folder).train, tokenizer).features


def make_trainer(task, model, options):
    found = replace(options, dropout=0.0)
    network = build_network(task, model, "pretrained", 0, found, torch.device("cpu"))
    network.head.dropout.p = 0.0
    return Trainer(network, task, 0, found, "test")


def gradients(trainer, features, rows):
    trainer._gradients(features, rows)
    return torch.cat([p.grad.flatten() for p in trainer.network.parameters() if p.grad is not None])


def sentences():
    """Rows of tags with different numbers of labels."""
    texts = ["국회", "오늘 국회 새", "큰 첫 경찰 오늘 내일", "증시"]
    return NER, [
        GoldExample(str(n), (text,), tuple((n + k) % 13 for k in range(len(text))))
        for n, text in enumerate(texts)
    ]


def dialogues():
    """Pieces of values and gates are two means, over different numbers."""
    values = ["국회 증시 경찰 여행 외교", "국회", "축구 축구", "경찰 국회 증시"]
    return replace(WOS, labels=("식당-이름", "식당-지역")), [
        GoldExample(str(n), (value,), (f"식당-이름-{value}",)) for n, value in enumerate(values)
    ]


@pytest.mark.parametrize("make_rows", [sentences, dialogues])
@pytest.mark.parametrize("micro_batch_size", [1, 3])
def test_gradients_of_micro_batches_add_up_to_those_of_the_whole(
    model, tokenizer, make_settings, monkeypatch, make_rows, micro_batch_size
):
    monkeypatch.setattr("benchmarks.tasks.heads.klue.TEACHER_FORCING", 1.0)
    task, examples = make_rows()
    features = task.featurize(examples, tokenizer, 16, train=True)
    trainers = [make_trainer(task, model, make_settings()) for _ in range(2)]
    for trainer, trainer.micro_batch_size in zip(trainers, (4, micro_batch_size), strict=True):
        trainer.network.eval()  # no dropout in the head's own layers either
        trainer.network.head.training = True
    whole, parts = (gradients(trainer, features, np.arange(4)) for trainer in trainers)
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)
    assert whole.abs().max() > 1e-3


@pytest.fixture
def little_memory(monkeypatch):
    """Memory for three rows at once, in training and in predicting."""
    seen = []
    real = benchmarks.training.trainer.collate
    monkeypatch.setattr("benchmarks.training.trainer.gc.collect", lambda: 0)

    def collate(kind, features, rows, *rest):
        seen.append(len(rows))
        if len(rows) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return real(kind, features, rows, *rest)

    monkeypatch.setattr(benchmarks.training.trainer, "collate", collate)
    return seen


def test_out_of_memory_halves_the_micro_batch_and_keeps_the_gradient(
    model, features, make_settings, little_memory, monkeypatch
):
    warnings: list[str] = []
    monkeypatch.setattr("benchmarks.training.trainer.warn", warnings.append)
    options, rows = make_settings(), np.arange(14)
    trainer = make_trainer(YNAT, model, options)
    halved = gradients(trainer, features, rows)
    assert trainer.micro_batch_size == 2  # of 14, 7, 4, 2
    said = [warning.rpartition("continues with ")[2] for warning in warnings]
    assert said == [f"{n} rows at once" for n in (7, 4, 2)]
    monkeypatch.undo()
    whole = gradients(make_trainer(YNAT, model, options), features, rows)
    torch.testing.assert_close(halved, whole, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("task", "golds"),
    [
        (YNAT, ["사회", "사회", "경제"]),
        (STSB, [0.0, 0.0, 1.5]),
        (NAVER_NER, [["O", "O"], ["O"], ["O", "PER-B"]]),
        (SQUAD_2, [[], [], ["a"]]),
    ],
)
def test_one_gold_value_everywhere_is_a_doubt_and_no_failure(task, golds):
    """A constant answer is right then; it is a failure only where gold values differ."""
    said = golds[0]
    predictions = [{"gold": gold, "prediction": gold} for gold in golds]
    predictions[1]["prediction"] = predictions[0]["prediction"] = said
    (doubt,) = task.doubts([GoldExample("a", ("a",), 2)], predictions[:2])
    assert doubt.startswith(f"the gold value of all 2 reported {task.row_name}s is ")
    assert task.constant(predictions[:2]) == task.constant(predictions[:2], "gold") is not None
    assert task.constant(predictions, "gold") is None
