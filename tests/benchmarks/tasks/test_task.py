"""What all tasks share: pairs, batches, scores of resampled predictions."""

import numpy as np
import pytest
import torch

from benchmarks.tasks.heads import POOL_BATCHES, collate, training_batches
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import GoldExample
from tests.benchmarks.records import MRPC, NLI, YNAT, lines_of


def words(row, tokenizer):
    return " ".join(tokenizer.convert_ids_to_tokens(row.tolist()))


def test_a_pair_has_two_token_types_and_loses_its_longer_text_first(tokenizer):
    pair = GoldExample("a", ("오늘 내일 새 큰 첫 국회", "증시 경찰"), 2)
    full = GoldExample("b", ("국회 오늘 새", "증시 경찰"), 0)  # of the maximum length: not cut
    features = NLI.featurize([pair, full], tokenizer, 8, train=False)
    assert words(features.input_ids[0], tokenizer) == "[CLS] 오늘 내일 새 [SEP] 증시 경찰 [SEP]"
    assert features.token_type_ids[0].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert features.labels["labels"] == [2, 0]
    assert features.num_truncated == 1


def test_both_orders_are_learnt_and_one_is_predicted(tokenizer):
    pairs = [GoldExample("a", ("국회", "증시 경찰"), 1), GoldExample("b", ("새", "큰"), 0)]
    features = MRPC.featurize(pairs, tokenizer, 8, train=True)
    assert features.example_of.tolist() == [0, 1, 0, 1]
    assert words(features.input_ids[2], tokenizer) == "[CLS] 증시 경찰 [SEP] 국회 [SEP]"
    assert features.labels["labels"] == [1, 0, 1, 0]
    assert MRPC.featurize(pairs, tokenizer, 8, train=False).example_of.tolist() == [0, 1]


def test_a_batch_is_padded_to_its_own_longest_row(tokenizer):
    titles = ["국회", "오늘 국회 새", "오늘 내일 새 큰 국회"]
    examples = [GoldExample(str(n), (title,), n) for n, title in enumerate(titles)]
    features = YNAT.featurize(examples, tokenizer, 16, train=False)
    batch = collate(YNAT, features, np.array([1, 0]), 0, torch.device("cpu"))
    assert batch["input_ids"].shape == (2, 5)
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert batch["input_ids"][1, 3:].tolist() == [0, 0]
    assert batch["labels"].tolist() == [1, 0]


def test_training_batches_are_full_and_cover_each_epoch():
    lengths = np.random.default_rng(0).integers(3, 60, 96)
    batches = training_batches(lengths, 8, 24, np.random.default_rng(5))  # two epochs
    assert [len(batch) for batch in batches] == [8] * 24
    assert np.bincount(np.concatenate(batches)).tolist() == [2] * 96
    again = training_batches(lengths, 8, 24, np.random.default_rng(5))
    other = training_batches(lengths, 8, 24, np.random.default_rng(6))
    assert all((a == b).all() for a, b in zip(batches, again, strict=True))
    assert any((a != b).any() for a, b in zip(batches, other, strict=True))
    # rows of like length in shuffled order
    lengths = np.random.default_rng(0).integers(3, 100, 8 * POOL_BATCHES)
    batches = training_batches(lengths, 8, POOL_BATCHES, np.random.default_rng(1))
    assert np.mean([np.ptp(lengths[batch]) for batch in batches]) < 5  # without sorting about 75
    longest = [lengths[batch].max() for batch in batches]
    assert longest != sorted(longest)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_sampled_headline_is_the_score_of_the_sampled_predictions(task):
    rng = np.random.default_rng(5)
    predictions = lines_of(task, rng, 20)
    sample = task.headline_sampler(predictions)
    for positions in rng.integers(0, 20, (10, 20)):
        repeated = [predictions[n] | {"id": str(i)} for i, n in enumerate(positions)]
        assert sample(positions) == pytest.approx(task.score(repeated)[task.headline], nan_ok=True)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_an_error_is_0_of_the_gold_value_alone(task):
    predictions = lines_of(task, np.random.default_rng(6), 40)
    errors = np.array([task.error(p) for p in predictions])
    assert ((errors > 0) & (errors < 9)).any()
    for prediction in predictions:
        right = prediction["gold"]
        if task.row_name == "question":
            right = right[0] if right else ""
        assert task.error(prediction | {"prediction": right}) == 0
        pairs = task.label_pairs(prediction)
        assert all(gold == predicted for gold, predicted in pairs) or task.error(prediction)
