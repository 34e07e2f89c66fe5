"""Sentences of KLUE-DP: reading, pieces of words, and the parser."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.tasks.features import word_positions
from benchmarks.tasks.heads import collate
from benchmarks.tasks.heads import klue as parsing_head
from benchmarks.tasks.heads.klue import Biaffine, Parser
from benchmarks.tasks.task import Features
from benchmarks.tasks.trees import NO_WORD
from tests.benchmarks.conftest import build_tokenizer
from tests.benchmarks.records import DP, TREES, write

TOKENIZER = build_tokenizer(["민", "##수", "##는", "서울", "##에", "산다", ".", "간다"])


@pytest.fixture
def examples(tmp_path):
    return list(DP.read("dev", write(tmp_path / "dp.tsv", TREES)))


@pytest.fixture
def small_parser(monkeypatch):
    for name in ("LSTM_SIZE", "ARC_SIZE", "LABEL_SIZE", "POS_SIZE"):
        monkeypatch.setattr(parsing_head, name, 6)
    torch.manual_seed(5)
    return Parser(4, 38, 45).eval()


@pytest.mark.parametrize(
    ("words", "spans", "expected"),
    [
        # byte-level pieces begin with the blank before a word
        ("ab c de", [(0, 0), (0, 1), (1, 2), (2, 4), (4, 7), (0, 0)], [(1, 2), (3, 3), (4, 4)]),
        # a word without a piece stands at the root
        ("ab \u200b c", [(0, 0), (0, 2), (5, 6), (0, 0)], [(1, 1), (0, 0), (2, 2)]),
    ],
)
def test_pieces_belong_to_the_word_of_their_last_character(words, spans, expected):
    assert word_positions(words.split(" "), spans) == expected


def test_words_that_are_cut_off_are_never_right(examples):
    features = DP.featurize(examples, TOKENIZER, 7, train=True)
    assert TOKENIZER.convert_ids_to_tokens(features.input_ids[0].tolist())[-2:] == ["##에", "[SEP]"]
    assert features.num_truncated == 1
    # the head of both words left is the third, which is gone
    assert features.labels["heads"][0] == [NO_WORD, NO_WORD]
    assert features.labels["arc_labels"][0] == [NO_WORD, NO_WORD]
    scores = np.zeros((2, 3))
    scores[:, 1] = 1.0
    outputs = [{"arc_scores": scores, "best_labels": np.full((2, 3), 5)}]
    outputs += [{"arc_scores": np.array([[1.0, 0.0]]), "best_labels": np.full((1, 2), 2)}]
    predictions = DP.predictions(examples, features, outputs)
    labels = ["NP_OBJ", "NP_OBJ", None]
    assert predictions[0]["prediction"] == {"heads": [1, 1, -1], "labels": labels}
    assert DP.score(predictions)["uas_micro_f1"] == pytest.approx(1 / 4)


def test_biaffine_scores_every_pair():
    torch.manual_seed(0)
    biaffine = Biaffine(3, 2)
    nn.init.normal_(biaffine.bias)
    left, right = torch.randn(1, 4, 3), torch.randn(1, 5, 3)
    scores = biaffine(left, right)
    for output, m, n in itertools.product(range(2), range(4), range(5)):
        x, y = left[0, m], right[0, n]
        of_each = biaffine.left[output] @ x + biaffine.right[output] @ y
        expected = x @ biaffine.pair[output] @ y + of_each + biaffine.bias[output]
        assert scores[0, output, m, n].item() == pytest.approx(expected.item(), abs=1e-5)


def batches(features: Features):
    device = torch.device("cpu")
    both = collate(DP, features, np.arange(2), 0, device)
    alone = collate(DP, features, np.array([1]), 0, device)
    return both, alone


def test_a_sentence_is_parsed_alike_alone_and_in_a_batch(examples, small_parser):
    features = DP.featurize(examples, TOKENIZER, 32, train=False)
    both, alone = batches(features)
    states = torch.randn(2, both["input_ids"].shape[1], 4)
    with torch.inference_mode():
        in_batch = small_parser(states, both)
        by_itself = small_parser(states[1:, : alone["input_ids"].shape[1]], alone)
    torch.testing.assert_close(in_batch["arc_scores"][1:, :1, :2], by_itself["arc_scores"])
    assert in_batch["best_labels"][1, 0, :2].tolist() == by_itself["best_labels"][0, 0].tolist()
    # no head beyond the sentence
    assert (in_batch["arc_scores"][1, :, 2:] < -1e7).all()


def test_the_loss_is_the_cross_entropy_of_heads_and_labels(examples, small_parser):
    features = DP.featurize(examples, TOKENIZER, 32, train=True)
    both, _ = batches(features)
    small_parser.train()
    outputs = small_parser(torch.randn(2, both["input_ids"].shape[1], 4), both)
    expected = 0.0
    for row, word in ((0, 0), (0, 1), (0, 2), (1, 0)):
        for name, gold in (("arc_scores", "heads"), ("label_scores", "arc_labels")):
            logarithms = outputs[name][row, word].log_softmax(dim=0)
            expected -= logarithms[both[gold][row, word]].item() / 4
    assert small_parser.loss(outputs, both).item() == pytest.approx(expected, rel=1e-5)
    assert small_parser.counts(both) == (4,)
