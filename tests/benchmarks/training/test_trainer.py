"""Micro-batches, memory that does not suffice, selection of a model, frozen weights."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import benchmarks.training.trainer
from benchmarks.encoder import freeze, load_encoder
from benchmarks.tasks.load import load_data, split_by_group
from benchmarks.tasks.task import GoldExample
from benchmarks.training.finetune import TaskFeatures, finetune
from benchmarks.training.network import build_network
from benchmarks.training.trainer import Selection, Trainer
from tests.benchmarks.conftest import split_of
from tests.benchmarks.records import NAVER_NER, NER, SQUAD_2, STSB, WOS, YNAT


@pytest.fixture
def features(ynat_folder, tokenizer):
    data = load_data(YNAT, ynat_folder)
    train, chosen = split_by_group(YNAT, data.train, 0.7, "selection")
    train, dev, chosen = (
        split_of(YNAT, rows, tokenizer) for rows in (train, data.reported, chosen)
    )
    return TaskFeatures(YNAT, train, {"dev": dev}, chosen)


def make_trainer(task, model, options, micro_batch_size=None, **settings):
    found = replace(options, dropout=0.0, micro_batch_size=micro_batch_size, **settings)
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
    trainers = [make_trainer(task, model, make_settings(), of) for of in (4, micro_batch_size)]
    for trainer in trainers:
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
    halved = gradients(trainer, features.train.features, rows)
    assert trainer.micro_batch_size == 2  # of 14, 7, 4, 2
    assert [w.rpartition("continues with ")[2] for w in warnings] == [
        f"{n} rows at once" for n in (7, 4, 2)
    ]
    monkeypatch.undo()
    whole = gradients(make_trainer(YNAT, model, options), features.train.features, rows)
    torch.testing.assert_close(halved, whole, rtol=1e-4, atol=1e-7)


class Counting:
    """Stands in for a trainer: one weight, which is the number of steps."""

    def __init__(self):
        self.network = torch.nn.Linear(1, 1, bias=False)

    def to(self, step):
        with torch.no_grad():
            self.network.weight.fill_(step)

    @property
    def step(self):
        return self.network.weight.item()


def run(values, patience=None, num_steps=10, every=2):
    trainer = Counting()
    selection = Selection(lambda t: values[int(t.step)], every, patience)
    for step in range(1, num_steps + 1):
        trainer.to(step)
        selection.look(step, trainer)
        if selection.is_over:
            break
    selection.restore(trainer)
    return trainer.step, selection


def test_the_best_evaluated_weights_come_back():
    found, selection = run({2: 0.3, 4: 0.7, 6: 0.7, 8: 0.1, 10: 0.2})
    assert found == 4  # the first of equals
    assert selection.described() == {"step": 4, "value": 0.7, "num_evaluations": 5, "last_step": 10}
    assert run({2: 0.3, 4: 0.7, 6: 0.6, 7: 0.9}, num_steps=7)[0] == 7  # the last step counts
    # nan never wins over a number
    assert run({2: math.nan, 4: 0.1, 6: math.nan, 8: 0.0, 10: math.nan})[0] == 4
    found, selection = run(dict.fromkeys(range(2, 11, 2), math.nan))
    assert (found, selection.described()["value"]) == (2, None)


def test_reported_rows_choose_nothing(model, features, make_settings):
    """The same model is chosen whatever the reported rows are."""
    options = make_settings(
        num_epochs=4, selection="best-on-a-split-of-train", evaluations_per_epoch=2
    )
    first = finetune(features, model, options, seed=0)
    wrong = [replace(e, gold=(e.gold + 1) % 7) for e in features.predicted["dev"].examples]
    other = replace(features.predicted["dev"], examples=tuple(wrong))
    second = finetune(replace(features, predicted={"dev": other}), model, options, seed=0)
    assert first.selected == second.selected
    assert [a["prediction"] for a in first.predictions["dev"]] == [
        b["prediction"] for b in second.predictions["dev"]
    ]
    assert first.selected["num_evaluations"] >= 8
    assert 0 < first.selected["step"] <= first.hyper_parameters["num_steps"]


def test_frozen_weights_do_not_move(model, features, make_settings):
    before = dict(load_encoder(model, "pretrained", 0).named_parameters())

    def changed(**options) -> set[str]:
        settings = make_settings(num_epochs=1, **options)
        network = finetune(features, model, settings, seed=0).network
        kept = dict(network.encoder.named_parameters())
        return {name for name, p in kept.items() if not torch.equal(p, before[name])}

    assert changed() == set(before)
    last = {name for name in before if name.startswith("encoder.layer.1.")}
    assert changed(freeze=1) == last
    assert not changed(freeze="encoder")
    with pytest.raises(ValueError, match=r"evaluate\.freeze = 3: the encoder has 2 layers"):
        freeze(load_encoder(model, "pretrained", 0), 3)


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
