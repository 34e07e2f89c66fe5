"""One fine-tuning: what it learns from, that the seed decides all of it, and its parts."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.encoder import load_encoder
from benchmarks.results.predictions import score_predictions
from benchmarks.tasks.heads.linear import LinearHead
from benchmarks.tasks.load import load_data
from benchmarks.tasks.task import Example, GoldExample
from benchmarks.training.finetune import (
    TaskFeatures,
    finetune,
    low_shot_rows,
    tokenize,
    training_rows,
)
from tests.benchmarks.conftest import split_of
from tests.benchmarks.records import YNAT


def scores(fitted):
    return score_predictions(YNAT, fitted.predictions["dev"])


def probabilities(fitted):
    return np.array([p["probabilities"] for p in fitted.predictions["dev"]])


@pytest.fixture
def features(ynat_folder, tokenizer):
    data = load_data(YNAT, ynat_folder)
    train, reported = (split_of(YNAT, rows, tokenizer) for rows in (data.train, data.reported))
    return TaskFeatures(YNAT, train, {"dev": reported})


@pytest.mark.parametrize("role", ["pretrained", "random-init"])
def test_a_separable_task_is_learnt_without_a_mistake(features, model, make_settings, role):
    fitted = finetune(features, model, make_settings(num_epochs=12), seed=0, role=role)
    assert scores(fitted) == {"macro_f1": 1.0, "accuracy": 1.0}
    assert fitted.degenerate is None
    assert fitted.num_train_examples == 140
    np.testing.assert_allclose(probabilities(fitted).sum(axis=1), 1.0, atol=1e-5)


def test_a_seed_decides_every_bit_and_global_state_stays(features, model, make_settings):
    options = make_settings(num_epochs=2, max_train_examples=70)
    state = torch.get_rng_state()
    first = finetune(features, model, options, seed=3, role="random-init")
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)  # what ran before has no say
    again = finetune(features, model, options, seed=3, role="random-init")
    other = finetune(features, model, options, seed=4, role="random-init")
    assert first.predictions == again.predictions
    assert (probabilities(first) != probabilities(other)).any()


def test_constant_predictions_are_flagged(features, model, make_settings):
    labels = replace(features.train.features, labels={"labels": [5] * 140})
    train = replace(features.train, features=labels)
    fitted = finetune(replace(features, train=train), model, make_settings(num_epochs=3), seed=0)
    assert fitted.degenerate == "constant predictions: IT과학"
    assert scores(fitted)["accuracy"] == pytest.approx(1 / 7)


def test_only_examples_that_a_seed_learns_from_are_tokenised(ynat_folder, model, make_settings):
    """And each seed learns from the same ones as if all had been."""
    data = load_data(YNAT, ynat_folder)
    prepared = tokenize(YNAT, data, model, make_settings(max_train_examples=10), [3, 5])
    assert 10 <= len(prepared.train.examples) <= 20
    everything = tokenize(YNAT, data, model, make_settings(), [0]).train
    assert everything.examples == data.train
    for seed in (3, 5):
        learnt = [
            [
                split.examples[n]
                for n in split.features.example_of[training_rows(YNAT, split, 10, seed)]
            ]
            for split in (prepared.train, everything)
        ]
        assert learnt[0] == learnt[1]
        assert len(learnt[0]) == 10
    assert len(training_rows(YNAT, prepared.train, None, 3)) == len(prepared.train.examples)


def test_mean_pooling_is_the_mean_over_real_tokens(model):
    encoder = load_encoder(model, "pretrained", 0)
    states = torch.randn(2, 4, 32, generator=torch.Generator().manual_seed(0))
    batch = {"attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])}
    means = torch.stack([states[0].mean(0), states[1, :3].mean(0)])
    for pooling, expected in (("cls", states[:, 0]), ("mean", means)):
        head = LinearHead(encoder, 3, torch.Generator(), pooling).eval()
        torch.testing.assert_close(head(states, batch)["logits"], head.linear(expected))


def test_parts_are_the_texts_of_a_pair_and_the_marked_entities(model):
    """[m, a, b, |a - b|, a * b]; an entity that was cut off counts as zeros."""
    encoder = load_encoder(model, "pretrained", 0)
    states = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])

    def expected(row, a, b):
        first, second = (states[row, part].mean(0) if part else torch.zeros(32) for part in (a, b))
        mean = states[row, mask[row].bool()].mean(0)
        return torch.cat([mean, first, second, (first - second).abs(), first * second])

    types = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0]])
    pair = {"attention_mask": mask, "token_type_ids": types, "input_ids": types}
    head = LinearHead(encoder, 3, torch.Generator(), "parts").eval()
    wanted = torch.stack([expected(0, [0, 1, 2], [3, 4, 5]), expected(1, [0, 1], [2, 3])])
    torch.testing.assert_close(head(states, pair)["logits"], head.linear(wanted))

    ids = torch.tensor([[1, 7, 2, 8, 2, 9], [5, 2, 7, 2, 0, 0]])  # 7 x 8 and 5 x 9 are entities
    head = LinearHead(encoder, 3, torch.Generator(), "parts", ((7, 8), (5, 9))).eval()
    wanted = torch.stack([expected(0, [1, 2], []), expected(1, [2, 3], [0, 1, 2, 3])])
    marked = pair | {"input_ids": ids, "attention_mask": mask}
    torch.testing.assert_close(head(states, marked)["logits"], head.linear(wanted))


FRACTIONS = (0.01, 0.1, 0.3, 0.9, 1.0)


def labelled(labels) -> list[Example]:
    return [GoldExample(str(n), (f"text {n}",), label) for n, label in enumerate(labels)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.integers(0, 9))
def test_smaller_parts_stand_inside_larger_ones(labels, seed):
    examples, everything = labelled(labels), np.arange(len(labels))
    both = everything, everything
    parts = [{*low_shot_rows(YNAT, examples, *both, part, seed).tolist()} for part in FRACTIONS]
    for smaller, larger in itertools.pairwise(parts):
        assert smaller <= larger
    assert parts[-1] == set(everything.tolist())
    counts = Counter(labels)
    for fraction, part in zip(FRACTIONS, parts, strict=True):
        of_class = Counter(labels[number] for number in part)
        assert of_class.keys() == counts.keys()
        for label, number in of_class.items():
            assert abs(number - max(1, fraction * counts[label])) <= 0.5


def test_rows_of_one_example_stay_together():
    """Both orders of a pair, all windows of a context."""
    example_of = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 5])
    examples = labelled([0, 1, 0, 1, 0, 1])
    rows = low_shot_rows(YNAT, examples, example_of, np.arange(10), 0.4, seed=1)
    chosen = set(example_of[rows].tolist())
    assert len(chosen) == 2
    assert rows.tolist() == [row for row in range(10) if example_of[row] in chosen]
