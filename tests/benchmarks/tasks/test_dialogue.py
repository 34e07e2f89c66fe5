"""Dialogues of the Wizard of Seoul: reading, states as text, and the slot generator."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import ElectraConfig, ElectraModel

from benchmarks.tasks.dialogue import GATES, GENERATED
from benchmarks.tasks.heads import collate, make_head
from benchmarks.tasks.heads import klue as dialogue_head
from benchmarks.tasks.heads.klue import MAX_VALUE_PIECES
from tests.benchmarks.conftest import SIZES, words_of
from tests.benchmarks.records import DIALOGUE, WOS, bert_tokenizer, write

SLOTS = ("식당-이름", "식당-주차 가능")
TASK = replace(WOS, labels=SLOTS)
WORDS = words_of(
    "[PAD] [UNK] [CLS] [SEP] [MASK] 식당 이름 주차 가능 none yes no dontcare 미 ##담 나 은 : , = 1 "
    "##2 3 4 don t '"
)


@pytest.fixture(scope="module")
def tokenizer():
    return bert_tokenizer(WORDS)


@pytest.fixture
def examples(tmp_path):
    return list(TASK.read("dev", write(tmp_path / "wos.json", [DIALOGUE])))


@pytest.fixture
def encoder():
    config = ElectraConfig(vocab_size=len(WORDS), embedding_size=16, **SIZES)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return ElectraModel(config)


@pytest.fixture
def batch(examples, tokenizer):
    features = TASK.featurize(examples, tokenizer, 32, train=True)
    return collate(TASK, features, np.arange(3), 0, torch.device("cpu"))


def head_on(encoder, tokenizer, seed=0):
    return make_head(TASK, encoder, tokenizer, torch.Generator().manual_seed(seed))


def ids(*pieces):
    return [WORDS.index(piece) for piece in pieces]


def test_turns_become_features(examples, tokenizer):
    features = TASK.featurize(examples, tokenizer, 7, train=True)
    rows = [tokenizer.convert_ids_to_tokens(row.tolist()) for row in features.input_ids]
    assert rows[0] == ["[CLS]", "[SEP]", "[SEP]", "식당", "[SEP]"]
    assert rows[2] == ["[CLS]", "##담", "[SEP]", "나", "[SEP]", "주차", "[SEP]"]
    assert features.num_truncated == 2
    batch = TASK.label_arrays(features, np.array([0, 2]), 7)
    assert batch["gates"].tolist() == [[0, 0], [GENERATED, GATES.index("yes")]]
    assert batch["values"].tolist() == [
        [ids("none", "[SEP]", "[PAD]"), ids("none", "[SEP]", "[PAD]")],
        [ids("미", "##담", "[SEP]"), ids("yes", "[SEP]", "[PAD]")],
    ]


def whole_distribution(head, states, batch, forced):
    """The probabilities of all pieces at every step, (B, J, K, V), written out with plain loops."""
    weight = head._embeddings[0].weight
    values = batch["values"]
    found = torch.zeros(*values.shape, len(weight))
    for row in range(values.shape[0]):
        real = batch["attention_mask"][row].bool()
        own, pieces = states[row, real], batch["input_ids"][row, real]
        for slot in range(values.shape[1]):
            name = head.slot_ids[slot][head.slot_mask[slot].bool()]
            word = head.widen(weight[name]).sum(0)
            hidden = torch.tanh(head.pooler(states[row, 0]))
            for step in range(values.shape[2]):
                hidden = head.gru(word[None], hidden[None])[0]
                attention = (own @ hidden).softmax(0)
                context = attention @ own
                gate = torch.sigmoid(head.generate(torch.cat((word, hidden, context))))
                found[row, slot, step] = gate * (weight @ head.narrow(hidden)).softmax(0)
                for piece, share in zip(pieces, attention, strict=True):
                    found[row, slot, step, piece] += ((1 - gate) * share).squeeze()
                best = found[row, slot, step].argmax()
                word = head.widen(weight[values[row, slot, step] if forced else best])
    return found


@pytest.mark.parametrize("forced", [True, False])
def test_probabilities_of_gold_pieces_are_those_of_the_whole_mixture(
    batch, tokenizer, encoder, monkeypatch, forced
):
    monkeypatch.setattr(dialogue_head, "TEACHER_FORCING", float(forced))
    head = head_on(encoder, tokenizer)
    head.dropout.p = 0.0
    states = torch.randn(*batch["input_ids"].shape, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        outputs = head.train()(states, batch)
        every = whole_distribution(head, states, batch, forced)
    expected = every.gather(3, batch["values"][..., None]).squeeze(3).log()
    torch.testing.assert_close(outputs["log_probabilities"], expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(every.sum(dim=3), torch.ones(batch["values"].shape))
    is_piece = batch["values"] != 0
    mean = -expected[is_piece].mean() + nn.functional.cross_entropy(
        outputs["gate_logits"].flatten(0, 1), batch["gates"].flatten()
    )
    torch.testing.assert_close(head.loss(outputs, batch), mean)


def test_decoding_is_greedy_over_the_mixture(batch, tokenizer, encoder, monkeypatch):
    monkeypatch.setattr(dialogue_head, "_PAIRS_AT_ONCE", 2)
    head = head_on(encoder, tokenizer).eval()
    nn.init.zeros_(head.gate.weight)
    nn.init.constant_(head.gate.bias[GENERATED], 1.0)
    states = torch.randn(*batch["input_ids"].shape, 32, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        outputs = head(states, batch)
        longer = batch | {"values": torch.zeros(3, 2, MAX_VALUE_PIECES, dtype=torch.int64)}
        every = whole_distribution(head, states, longer, forced=False)
    assert outputs["generated"].tolist() == every.argmax(dim=3).tolist()


def test_nothing_is_generated_behind_other_gates(examples, batch, tokenizer, encoder):
    features = TASK.featurize(examples, tokenizer, 32, train=False)
    head = head_on(encoder, tokenizer).eval()
    nn.init.zeros_(head.gate.weight)
    nn.init.constant_(head.gate.bias[0], 9.0)
    outputs = head(torch.randn(*batch["input_ids"].shape, 32), batch)
    assert not outputs["generated"].any()
    arrays = [{name: outputs[name][row].detach().numpy() for name in outputs} for row in range(3)]
    predictions = TASK.predictions(examples, features, arrays)
    assert [p["prediction"] for p in predictions] == [[]] * 3
    assert predictions[2]["gold"] == ["식당-이름-미담", "식당-주차 가능-yes"]
