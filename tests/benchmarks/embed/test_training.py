"""The loss beside its formula; which texts are negatives; batches; a resumed training."""

import math

import numpy as np
import pytest
import torch

from benchmarks.embed.pairs import Pair
from benchmarks.embed.sentences import open_sentence_encoder
from benchmarks.embed.training import (
    batches_of,
    contrastive_loss,
    false_negatives,
    train,
)
from electrify.config.evaluate import EmbedConfig
from electrify.system.outcome import UserError
from electrify.system.progress import Stopped, StopRequest
from tests.benchmarks.conftest import FILLERS, TOPICS


def test_the_loss_is_the_formula():
    torch.manual_seed(0)
    anchors, candidates = (
        torch.nn.functional.normalize(torch.randn(rows, 5, dtype=torch.float64)) for rows in (3, 4)
    )
    masked = torch.zeros(3, 4, dtype=torch.bool)
    masked[0, 2] = True
    losses = []
    for i in range(3):
        scores = [
            math.exp(float(anchors[i] @ candidates[j]) / 0.1) for j in range(4) if not masked[i, j]
        ]
        losses.append(-math.log(math.exp(float(anchors[i] @ candidates[i]) / 0.1) / sum(scores)))
    loss = float(contrastive_loss(anchors, candidates, masked, 0.1))
    assert loss == pytest.approx(sum(losses) / 3, rel=1e-12)


def test_the_loss_is_that_of_sentence_transformers():
    pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import losses

    torch.manual_seed(1)
    parts = [torch.nn.functional.normalize(torch.randn(6, 8)) for _ in range(3)]
    theirs = losses.MultipleNegativesRankingLoss(model=None, scale=20.0)
    masked = torch.zeros(6, 12, dtype=torch.bool)
    ours = contrastive_loss(parts[0], torch.cat(parts[1:]), masked, 0.05)
    expected = theirs.compute_loss_from_embeddings(parts, None)
    assert float(ours) == pytest.approx(float(expected), rel=1e-5)


def test_what_belongs_to_an_anchor_is_no_negative_of_it():
    batch = [Pair("q1", "p"), Pair("q2", "p", "n"), Pair("q1", "r"), Pair("p", "s")]
    positives = {"q1": {"p", "r"}, "q2": {"p"}, "p": {"s"}}
    expected = [  # candidates: p, p, r, s, and the negative n
        [False, True, True, False, False],
        [True, False, False, False, False],
        [True, True, False, False, False],
        [True, True, False, False, False],  # its own text
    ]
    assert false_negatives(batch, positives).tolist() == expected


def test_a_batch_is_of_one_source_and_an_epoch_has_no_pair_twice():
    batches = batches_of([23, 3], 5, 4, np.random.default_rng(0))
    assert sorted(map(len, batches)) == [3] * 4 + [5] * 16
    assert all(max(batch) < 23 or min(batch) >= 23 for batch in batches)
    for epoch in (batches[start : start + 5] for start in range(0, 20, 5)):
        numbers = np.concatenate(epoch)
        assert len(numbers) == len(set(numbers.tolist()))


SENTENCES = [f"{filler} {topic}" for filler in FILLERS for topic in TOPICS]
PAIRS = [Pair(text, f"{text.split()[1]} {FILLERS[0]}") for text in SENTENCES]
OPTIONS = EmbedConfig(num_epochs=12, batch_size=7, learning_rate=5e-3, temperature=0.1)


class _StopAt:
    """Asks to stop at the nth question."""

    signal = StopRequest().signal

    def __init__(self, count: int) -> None:
        self.count = count

    def __bool__(self) -> bool:
        self.count -= 1
        return self.count < 0


def test_a_resumed_training_ends_with_the_same_weights(model, tmp_path):
    whole, resumed = (open_sentence_encoder(model, "cpu") for _ in range(2))
    options = OPTIONS.model_copy(update={"num_epochs": 2})
    steps = train(whole, [PAIRS], options, 3, tmp_path / "whole.pt", StopRequest())
    state = tmp_path / "resumed.pt"
    with pytest.raises(Stopped, match="is saved"):
        train(resumed, [PAIRS], options, 3, state, _StopAt(7))
    again = open_sentence_encoder(model, "cpu")
    assert train(again, [PAIRS], options, 3, state, StopRequest()) == steps
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name]), name
    for stop in (_StopAt(steps[0] - 1), StopRequest()):  # saved at the last step, and resumed there
        last = open_sentence_encoder(model, "cpu")
        assert train(last, [PAIRS], options, 3, tmp_path / "last.pt", stop) == steps


def test_a_loss_that_is_no_number_ends_the_training(model, tmp_path):
    encoder = open_sentence_encoder(model, "cpu")
    options = OPTIONS.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(UserError, match=r"lower embed\.learning_rate"):
        train(encoder, [PAIRS], options, 3, tmp_path / "state.pt", StopRequest())
