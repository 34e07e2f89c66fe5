"""The objective equals the paper's formulas, written out; the networks equal transformers'."""

import math

import pytest
import torch
from torch.nn import functional as F
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from model.electra import (
    ElectraPretrainer,
    is_most_likely,
    masked_lm_loss,
    replaced_token_loss,
)
from model.export import to_transformers
from model.layers import attend


def test_masked_lm_loss_is_the_weighted_mean_of_negative_log_likelihoods():
    torch.manual_seed(0)
    logits, targets = torch.randn(2, 3, 7), torch.randint(0, 7, (2, 3))
    weights = torch.tensor([[1.0, 1, 0], [1, 0, 0]])
    total = 0.0
    for b in range(2):
        for n in range(3):
            if weights[b, n]:
                exponents = [math.exp(v) for v in logits[b, n].tolist()]
                total -= math.log(exponents[targets[b, n]] / sum(exponents))
    assert float(masked_lm_loss(logits, targets, weights)) == pytest.approx(total / 3, rel=1e-5)


def test_replaced_token_loss_is_the_mean_over_real_tokens():
    logits = torch.tensor([[0.3, -1.0, 2.0, 5.0]])
    labels = torch.tensor([[0.0, 1, 1, 0]])
    tokens = torch.tensor([[True, True, True, False]])
    expected = 0.0
    for x, y in zip(logits[0, :3].tolist(), labels[0, :3].tolist(), strict=True):
        p = 1 / (1 + math.exp(-x))
        expected -= y * math.log(p) + (1 - y) * math.log(1 - p)
    actual = float(replaced_token_loss(logits, labels, tokens))
    assert actual == pytest.approx(expected / 3, rel=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_bf16_is_attention_in_fp32_but_for_rounding(masked: bool):
    generator = torch.Generator().manual_seed(2)
    query, key, value = torch.randn(3, 2, 3, 16, 8, generator=generator)
    mask = torch.ones(2, 1, 1, 16, dtype=torch.bool)
    mask[1, ..., 11:] = not masked
    attention_mask = mask if masked else None
    expected = F.scaled_dot_product_attention(query, key, value, attention_mask)
    actual = attend(query.bfloat16(), key.bfloat16(), value.bfloat16(), attention_mask, 0.0)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.float(), expected, atol=2e-2, rtol=2e-2)


def test_a_token_is_most_likely_where_argmax_finds_it():
    logits = torch.randn(4, 6, 50, generator=torch.Generator().manual_seed(3))
    targets = torch.randint(0, 50, (4, 6))
    targets[:2] = logits[:2].argmax(-1)
    assert (is_most_likely(logits, targets) == (logits.argmax(-1) == targets)).all()


def test_losses_are_weighed_and_labels_mark_real_changes(model: ElectraPretrainer, data):
    batch = data.batch(0, 8)
    out = model(batch.input_ids, batch.token_type_ids, torch.Generator().manual_seed(1))
    expected = out.generator_loss + 50 * out.discriminator_loss
    assert out.loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert torch.equal(out.labels, (out.corrupted_ids != batch.input_ids).float())
    special = batch.input_ids <= 4
    assert out.labels[special].sum() == 0  # [CLS] and [SEP] are never replaced
    assert 0 < out.labels.sum() <= 8 * model.config.num_masked(32)


def test_generator_gets_no_gradient_from_the_discriminator(model: ElectraPretrainer, data):
    batch = data.batch(0, 4)
    out = model(batch.input_ids, batch.token_type_ids, torch.Generator().manual_seed(1))
    out.discriminator_loss.backward()
    assert all(p.grad is None for p in model.generator.parameters())
    assert all(p.grad is None for p in model.generator_head.parameters())
    assert model.embeddings.word.weight.grad is not None  # shared


def test_padding_changes_nothing_for_the_other_tokens(model: ElectraPretrainer, data):
    model.eval()
    ids = data.batch(0, 2).input_ids
    types = torch.zeros_like(ids)
    short = model.discriminate(ids[:, :20], types[:, :20])
    padded = ids.clone()
    padded[:, 20:] = 0
    masked = model.discriminate(padded, types, (padded != 0).long())
    assert torch.allclose(short, masked[:, :20], atol=1e-5)


def test_padded_input_is_never_masked_nor_counted(model: ElectraPretrainer, data):
    ids = data.batch(0, 4).input_ids.clone()
    ids[:, 25:] = 0
    rng = torch.Generator().manual_seed(2)
    out = model(ids, torch.zeros_like(ids), rng, packed=False)
    assert out.tokens.sum() == 4 * 25
    assert out.labels[:, 25:].sum() == 0


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_networks_equal_transformers(config, data, fraction: float):
    torch.manual_seed(5)
    pretrain = config.pretrain.model_copy(update={"generator_hidden_fraction": fraction})
    ours = ElectraPretrainer(pretrain, data.vocab_size, data.special).eval()
    for parameter in ours.parameters():  # biases too, so that a lost one shows
        torch.nn.init.normal_(parameter, std=0.2)
    ids = data.batch(0, 3).input_ids.clone()
    ids[1, 20:] = 0
    types, mask = data.batch(0, 3).token_type_ids, (ids != 0).long()
    everywhere = torch.arange(32).expand(3, -1)
    with torch.no_grad():
        disc, gen = to_transformers(ours, "discriminator"), to_transformers(ours, "generator")
        assert isinstance(disc, ElectraForPreTraining)
        assert isinstance(gen, ElectraForMaskedLM)
        inputs = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}
        real = mask.bool()
        difference = disc(**inputs).logits - ours.discriminate(ids, types, mask)
        assert difference[real].abs().max() < 1e-5
        difference = gen(**inputs).logits - ours.generate(ids, types, everywhere, mask)
        assert difference[real].abs().max() < 1e-4


def test_initial_weights(model: ElectraPretrainer):
    weight = model.discriminator.layers[0].intermediate.weight
    assert weight.std().item() == pytest.approx(0.02 * 0.88, rel=0.1)  # cut at two deviations
    assert weight.abs().max() <= 0.04
    assert model.discriminator.layers[0].query.bias.abs().sum() == 0
    limit = math.sqrt(6 / (32 + 1))
    last = model.discriminator_head.prediction.weight.abs().max().item()
    assert 0.04 < last <= limit
