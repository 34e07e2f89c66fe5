"""The head of `transformers` on an encoder; reading heads beside their formulas, written out one
row, one start and one end at a time."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoModel,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    ElectraConfig,
    ElectraForQuestionAnswering,
    ModernBertConfig,
    RobertaConfig,
)

from benchmarks.tasks.heads.linear import EncoderWithHead, JointHead, SpanHead, fresh_head
from tests.benchmarks.conftest import SIZES
from tests.benchmarks.records import encoder_of_width


@pytest.mark.parametrize("kind", ["electra", "modern", "bert", "roberta"])
@pytest.mark.parametrize(
    "auto_class",
    [
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
        AutoModelForQuestionAnswering,
    ],
)
def test_the_head_of_transformers_is_its_own_network(kind: str, auto_class: Any) -> None:
    """Put together again, encoder and head give what they gave apart."""
    shape = {**SIZES, "vocab_size": 20, "pad_token_id": 0}
    configs = {
        "electra": ElectraConfig(**shape),
        "modern": ModernBertConfig(**shape, classifier_pooling="mean"),
        "bert": BertConfig(**shape),
        "roberta": RobertaConfig(**shape),
    }
    encoder = AutoModel.from_config(configs[kind])
    generator = torch.Generator().manual_seed(1)
    head = fresh_head(encoder, auto_class, 2, generator)
    names = {name for name, _ in encoder.named_parameters()}
    assert not names & {name for name, _ in head.named_parameters()}
    batch = {"input_ids": torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]])}
    batch["attention_mask"] = (batch["input_ids"] != 0).long()
    batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
    network = EncoderWithHead(encoder, head).eval()
    real = batch["attention_mask"].bool()
    with torch.inference_mode():
        apart = network(batch)
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        whole = head.whole(encoder).eval()(**inputs)
    for name, values in apart.items():
        of_whole = whole[name]
        kept = real if values.ndim > 1 and values.shape[1] == 4 else slice(None)
        torch.testing.assert_close(values[kept], of_whole[kept], atol=1e-6, rtol=0)


# Reading.

HIDDEN = 8


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def batch_of(lengths: list[int], width: int) -> dict[str, Tensor]:
    """Rows of [CLS], two question pieces, [SEP], the context and [SEP]."""
    attention = torch.zeros(len(lengths), width, dtype=torch.long)
    answer = torch.zeros(len(lengths), width, dtype=torch.bool)
    for row, length in enumerate(lengths):
        attention[row, :length] = 1
        answer[row, [0, *range(4, length - 1)]] = True
    return {"attention_mask": attention, "answer_mask": answer, "input_ids": attention}


def states_of(batch: dict[str, Tensor]) -> Tensor:
    return torch.randn(*batch["attention_mask"].shape, HIDDEN, generator=generator())


def joint_head(**options) -> JointHead:
    head = JointHead(encoder_of_width(HIDDEN), generator(), **options)
    for parameter in head.parameters():  # biases too, so that none can be forgotten
        nn.init.normal_(parameter, std=0.5, generator=generator())
    return head


def end_log_probs(head: JointHead, states: Tensor, allowed: Tensor, start: int) -> Tensor:
    """log p(end | start) of one row (T, H), over the allowed positions; -inf elsewhere."""
    pairs = torch.stack([torch.cat([states[start], end]) for end in states])
    scores = head.end(F.gelu(head.end_hidden(pairs))).squeeze(-1)
    return scores.masked_fill(~allowed, -math.inf).log_softmax(dim=0)


def start_log_probs(head: JointHead, states: Tensor, allowed: Tensor) -> Tensor:
    scores = head.start(states).squeeze(-1)
    return scores.masked_fill(~allowed, -math.inf).log_softmax(dim=0)


def impossible_logit(head: JointHead, states: Tensor, allowed: Tensor) -> Tensor:
    mean = start_log_probs(head, states, allowed).exp() @ states
    hidden = F.gelu(head.answerable_hidden(torch.cat([states[0], mean])))
    return head.answerable(hidden).squeeze()


def test_the_beam_holds_the_best_starts_and_the_best_ends_of_each():
    head = joint_head(beam_size=3).eval()
    batch = batch_of([12, 9], 12)
    states = states_of(batch)
    outputs = head(states, batch)
    assert outputs["start_index"].shape == outputs["start_log_probs"].shape == (2, 3)
    assert outputs["end_index"].shape == outputs["end_log_probs"].shape == (2, 3, 3)
    for row in range(2):
        allowed = batch["answer_mask"][row]
        starts = start_log_probs(head, states[row], allowed).topk(3)
        assert outputs["start_index"][row].tolist() == starts.indices.tolist()
        torch.testing.assert_close(outputs["start_log_probs"][row], starts.values)
        for place, start in enumerate(starts.indices.tolist()):
            ends = end_log_probs(head, states[row], allowed, start).topk(3)
            assert outputs["end_index"][row, place].tolist() == ends.indices.tolist()
            found = outputs["end_log_probs"][row, place]
            torch.testing.assert_close(found, ends.values, rtol=1e-4, atol=1e-4)
        expected = impossible_logit(head, states[row], allowed)
        torch.testing.assert_close(outputs["impossible_logit"][row], expected)


def test_the_loss_reads_the_end_behind_the_right_start():
    head = joint_head(answerable_weight=0.5).train()
    batch = batch_of([12, 9], 12)
    batch |= {"start": torch.tensor([5, 0]), "end": torch.tensor([7, 0])}
    batch["impossible"] = torch.tensor([0, 1])
    states = states_of(batch)
    expected = []
    for row in range(2):
        allowed, start = batch["answer_mask"][row], int(batch["start"][row])
        starts = start_log_probs(head, states[row], allowed)
        ends = end_log_probs(head, states[row], allowed, start)
        boundary = (starts[start] + ends[batch["end"][row]]) / -2
        target = batch["impossible"][row].float()
        logit = impossible_logit(head, states[row], allowed)
        expected.append(boundary + 0.5 * F.binary_cross_entropy_with_logits(logit, target))
    torch.testing.assert_close(head.loss(head(states, batch), batch), torch.stack(expected).mean())


def test_the_plain_head_is_that_of_transformers():
    sizes = {"embedding_size": HIDDEN, "hidden_size": HIDDEN, "intermediate_size": 16}
    config = ElectraConfig(vocab_size=40, **sizes, num_hidden_layers=1, num_attention_heads=2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        reference = ElectraForQuestionAnswering(config).eval()
        ids = torch.randint(0, 40, (3, 12))
    head = SpanHead(reference.electra, generator())
    head.linear = reference.qa_outputs
    batch = batch_of([12, 12, 12], 12)
    batch |= {"start": torch.tensor([5, 0, 8]), "end": torch.tensor([7, 0, 8])}
    with torch.inference_mode():
        expected = reference(ids, start_positions=batch["start"], end_positions=batch["end"])
        outputs = head(reference.electra(ids).last_hidden_state, batch)
    torch.testing.assert_close(outputs["start_logits"], expected.start_logits)
    torch.testing.assert_close(outputs["end_logits"], expected.end_logits)
    torch.testing.assert_close(head.loss(outputs, batch), expected.loss)


@pytest.mark.parametrize(
    "make", [lambda: SpanHead(encoder_of_width(HIDDEN), generator()), joint_head]
)
def test_padding_changes_nothing(make):
    head = make().train()
    short, long = batch_of([9], 9), batch_of([9], 14)
    states = states_of(long)
    given = {"start": torch.tensor([5]), "end": torch.tensor([6]), "impossible": torch.tensor([0])}
    rows = (states[:, :9], short | given), (states, long | given)
    torch.testing.assert_close(*(head.loss(head(found, batch), batch) for found, batch in rows))
