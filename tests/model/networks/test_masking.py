"""Positions are chosen by their laws, what stands there follows its laws, and documents in packed
sequences are attended to as if each stood alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chisquare
from torch import Tensor

from model.networks.masking import choose_positions, sample_tokens
from tests.model.conftest import (
    MODERN,
    SPECIAL,
    VOCAB_SIZE,
    batch_from,
    discriminate,
    preset,
    random_batch,
    random_model,
)
from vocab.shards.files import Shard, TokenStream
from vocab.shards.sequences import PackedSequences


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=rng(seed), dtype=torch.float64)


SEP, MASK = SPECIAL["[SEP]"], SPECIAL["[MASK]"]


# --- tokens ---------------------------------------------------------------------------------------


def choose(maskable: Tensor, uniforms: Tensor, mask_fraction: float) -> tuple[Tensor, Tensor]:
    number = preset(mask_fraction=mask_fraction).num_masked(maskable.shape[1])
    return choose_positions(maskable, uniforms, number, number)


def test_chosen_positions_are_maskable_and_uniform():
    maskable = torch.ones(20_000, 16, dtype=torch.bool)
    maskable[:, [0, 5, 15]] = False
    positions, weights = choose(maskable, doubles(20_000, 16), 0.3)
    assert positions.shape == weights.shape == (20_000, 4)
    counts = positions[weights > 0].bincount(minlength=16)
    assert counts[~maskable[0]].sum() == 0
    assert chisquare(counts[maskable[0]].numpy()).pvalue > 1e-3


def test_equal_draws_choose_the_first_tokens_on_every_device():
    maskable = torch.ones(1, 300, dtype=torch.bool)
    positions, _ = choose(maskable, torch.full((1, 300), 0.5), 0.15)
    assert positions[0].tolist() == list(range(46))


def test_a_batch_of_a_phase_is_masked_as_much_as_the_phase_says():
    model, other = random_model(), random_model(mask_fraction=0.4)
    batch = random_batch(other, rows=200)
    masked, expected = model.mask(replace(batch, mask_fraction=0.4)), other.mask(batch)
    assert torch.equal(masked.masked_ids, expected.masked_ids)
    assert masked.weights.sum() / masked.tokens.sum() > 0.3


def test_only_what_is_maskable_is_chosen_even_if_that_is_nothing():
    maskable = torch.zeros(2, 32, dtype=torch.bool)
    maskable[0, [3, 6]] = True
    positions, weights = choose(maskable, doubles(2, 32), 0.5)
    assert weights[1].sum() == 0
    assert (positions < 32).all()
    assert sorted(positions[0][weights[0] > 0].tolist()) == [3, 6]


@pytest.mark.parametrize("attention", ["sequence", "document"])
def test_only_real_text_is_chosen_and_only_the_chosen_masked(attention: str):
    model = random_model(attention=attention, mask_fraction=0.3)
    batch = random_batch(model, rows=200)
    masked = model.mask(batch)
    ids = batch.input_ids
    chosen = masked.weights > 0
    assert ((ids == SPECIAL["[UNK]"]) | (ids > MASK)).gather(1, masked.positions)[chosen].all()
    assert torch.equal(masked.originals, ids.gather(1, masked.positions))
    may_change = torch.zeros_like(ids).scatter_add(1, masked.positions, chosen.long()) > 0
    changed = masked.masked_ids != ids
    assert (masked.masked_ids[changed] == MASK).all()
    assert not (changed & ~may_change).any()
    share = changed.sum() / may_change.sum()
    assert 0.8 < share < 0.95


@pytest.mark.parametrize(("length", "number"), [(20, 3), (40, 6), (512, 77)])
def test_masking_takes_its_fraction_of_each_sequence(length: int, number: int):
    model = random_model(mask_fraction=0.15)
    batch = random_batch(model, rows=3, length=length).filled_up(4, SPECIAL["[PAD]"])
    masked = model.mask(batch)
    assert masked.weights.sum(dim=1).tolist() == [number] * 3 + [0]
    assert masked.tokens.sum(dim=1).tolist() == [length] * 3 + [0]


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [5, 128, 300])  # less than a block, one, two and a piece
def test_samples_follow_the_softmax(vocab_size: int):
    logits = torch.randn(vocab_size, generator=rng(6))
    num_draws = 50_000
    drawn = sample_tokens(logits.expand(num_draws, -1), doubles(num_draws, 2))
    expected = logits.double().softmax(0) * num_draws
    counts = drawn.bincount(minlength=vocab_size)
    assert chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("edge", [0.0, 1 - 2.0**-53])
def test_the_ends_of_the_unit_interval_draw_tokens_that_are_possible(edge: float):
    logits = torch.randn(64, 300, generator=rng(8))
    logits[:, :3] = logits[:, 200:] = float("-inf")
    drawn = sample_tokens(logits, torch.full((64, 2), edge, dtype=torch.float64))
    assert ((drawn >= 3) & (drawn < 200)).all()


def packed_documents() -> tuple[Tensor, Tensor, Tensor]:
    """Ids and token types of rows as shards pack them, and the document that each token is of:
    [CLS] is of that of the token after it, a row's own [SEP] of that of the token before."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 30, 300)  # with the [SEP] at the end
    ends = np.cumsum(lengths)
    starts = np.append(0, ends)

    def rows_of(tokens: NDArray[np.int64]) -> list[Tensor]:
        shard = Shard(tokens.astype(np.uint16), starts)
        stream = TokenStream([shard], np.dtype(np.uint16))
        packed = PackedSequences(stream, 24, "key", SPECIAL)
        return [torch.from_numpy(of.astype(np.int64)) for of in packed.batch(np.arange(200))]

    words = rng.integers(5, VOCAB_SIZE, ends[-1])
    words[ends - 1] = SEP
    ids, types = rows_of(words)
    documents, _ = rows_of(np.repeat(np.arange(10, 310), lengths))  # but for the row's own tokens
    documents = torch.where(documents == SEP, documents.roll(1, dims=1), documents)
    documents[:, 0] = documents[:, 1]
    return ids, types, documents


@torch.no_grad()
@pytest.mark.parametrize(
    "options", [{}, MODERN | {"global_attn_every_n_layers": 2, "local_attention": 4}], ids=str
)
def test_packed_documents_are_computed_as_separate_sequences(options: dict[str, object]):
    model = random_model(attention="document", **options)
    ids, types, documents = (rows[:12] for rows in packed_documents())
    masked = model.mask(batch_from(model.config, ids, types))
    placed = masked.attention_mask, masked.position_ids
    detected = discriminate(model, ids, types, *placed)
    states = model.generator_states(ids, types, *placed)
    for number, row in enumerate(documents):
        for document in row.unique():
            at = (row == document).nonzero().flatten()
            alone = ids[number, at][None], types[number, at][None]
            expected = discriminate(model, *alone)[0]
            torch.testing.assert_close(detected[number, at], expected, rtol=1e-4, atol=1e-4)
            expected = model.generator_states(*alone)[0]
            torch.testing.assert_close(states[number, at], expected, rtol=1e-4, atol=1e-4)
