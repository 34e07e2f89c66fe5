"""Every objective equals the paper's formula, written out token by token in double precision.

Of the code under test only the networks' logits are used, which other tests hold against
`transformers`. Source: ELECTRA (Clark et al. 2020), sections 2, 3.4 and appendix F.
"""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chisquare
from torch import Tensor

from model.batch import Masked, Outputs
from model.data import Batch
from model.electra import ElectraPretrainer
from tests.model.conftest import VOCAB_SIZE, random_batch, random_model

PAD, UNK, CLS, SEP, MASK = range(5)
OBJECTIVES = [
    "electra", "electra-15", "replace-mlm", "all-tokens-mlm", "mlm", "electra-adversarial",
    "electra-two-stage", "electric",
]  # fmt: skip
# what an objective needs to be possible
NEEDS: dict[str, dict[str, object]] = {
    "electra-two-stage": {"generator_hidden_fraction": 1.0, "weight_sharing": "none"}
}
Doubles = NDArray[np.float64]


def model_of(objective: str, **options: object) -> ElectraPretrainer:
    return random_model(objective=objective, **(NEEDS.get(objective, {}) | options))


# --- formulas -------------------------------------------------------------------------------------


def softmax(row: Doubles) -> Doubles:
    exponents = np.exp(row - row.max())
    return exponents / exponents.sum()


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def cross_entropy(logit: float, label: float) -> float:
    """Of sigmoid(logit), the probability of 1, with a label that may lie between 0 and 1."""
    p = sigmoid(logit)
    return -label * math.log(p) - (1 - label) * math.log(1 - p)


def doubles(tensor: Tensor) -> Doubles:
    return tensor.detach().double().numpy()


def chosen_of(masked: Masked) -> list[tuple[int, int, int]]:
    """Row, slot and position of all that were chosen."""
    rows, slots = masked.positions.shape
    return [
        (b, n, int(masked.positions[b, n]))
        for b, n in product(range(rows), range(slots))
        if masked.weights[b, n]
    ]


def tokens_of(batch: Batch) -> list[tuple[int, int]]:
    """Row and position of all real tokens."""
    rows, length = batch.input_ids.shape
    places = product(range(rows), range(length))
    return [(b, t) for b, t in places if batch.input_ids[b, t] != PAD]


def corrupted_by_hand(masked: Masked, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """The original with the samples in it, and where that changed it."""
    corrupted = masked.batch.input_ids.clone()
    for b, n, t in chosen_of(masked):
        corrupted[b, t] = sampled[b, n]
    return corrupted, (corrupted != masked.batch.input_ids).long()


def generator_logits(model: ElectraPretrainer, masked: Masked) -> Doubles:
    types = masked.batch.token_type_ids
    mask = None if masked.batch.packed else (masked.batch.input_ids != PAD).long()
    return doubles(model.generate(masked.masked_ids, types, masked.positions, mask))


def detection_logits(model: ElectraPretrainer, masked: Masked, ids: Tensor) -> Doubles:
    mask = None if masked.batch.packed else (masked.batch.input_ids != PAD).long()
    return doubles(model.discriminate(ids, masked.batch.token_type_ids, mask))


def prediction_logits(
    model: ElectraPretrainer, masked: Masked, ids: Tensor, positions: Tensor
) -> Doubles:
    mask = None if masked.batch.packed else (masked.batch.input_ids != PAD).long()
    return doubles(model.predict(ids, masked.batch.token_type_ids, positions, mask))


def mlm_by_hand(logits: Doubles, masked: Masked) -> float:
    """Mean of -log p(original) over the chosen positions of the whole batch."""
    chosen = chosen_of(masked)
    originals = masked.batch.input_ids
    return sum(-math.log(softmax(logits[b, n])[originals[b, t]]) for b, n, t in chosen) / len(
        chosen
    )


def mean_of(out: Outputs, name: str) -> float:
    return out.terms[name].mean(out.counts).item()


# --- the losses -----------------------------------------------------------------------------------

VARIANTS: dict[str, dict[str, object]] = {
    "embeddings": {},
    "none": {"weight_sharing": "none"},
    "all": {"weight_sharing": "all", "generator_hidden_fraction": 1.0},
    "gdes": {"weight_sharing": "gdes"},
    "with weights": {"generator_weight": 0.3, "discriminator_weight": 7.0},
    "bernoulli": {"masking": "bernoulli"},
    "with-replacement": {"masking": "with-replacement", "mask_fraction": 0.5},
}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_electra(variant: str, padded: bool):
    """MLM over the chosen positions + 50 x detection over all real tokens (section 2)."""
    model = model_of("electra", **VARIANTS[variant])
    masked = model.mask(random_batch(model, padded=padded))
    out = model(masked)
    assert mean_of(out, "generator") == pytest.approx(
        mlm_by_hand(generator_logits(model, masked), masked), rel=1e-5
    )
    if variant != "with-replacement":  # where two draws of one position differ is its own test
        corrupted, labels = corrupted_by_hand(masked, out.sampled)
        assert torch.equal(out.corrupted_ids, corrupted)
        assert torch.equal(out.labels, labels.float())
    logits = detection_logits(model, masked, out.corrupted_ids)
    tokens = tokens_of(masked.batch)
    total = sum(cross_entropy(logits[b, t], int(out.labels[b, t])) for b, t in tokens)
    assert mean_of(out, "discriminator") == pytest.approx(total / len(tokens), rel=1e-5)
    assert 0 < out.labels.sum() < len(chosen_of(masked)) + 1
    assert out.labels[masked.batch.input_ids == CLS].sum() == 0
    factors = (0.3, 7.0) if variant == "with weights" else (1.0, 50.0)
    expected = factors[0] * mean_of(out, "generator") + factors[1] * mean_of(out, "discriminator")
    assert out.loss().item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("padded", [False, True])
def test_electra_15(padded: bool):
    """The detection loss over the chosen positions only."""
    model = model_of("electra-15")
    masked = model.mask(random_batch(model, padded=padded))
    out = model(masked)
    corrupted, labels = corrupted_by_hand(masked, out.sampled)
    logits = detection_logits(model, masked, corrupted)
    chosen = chosen_of(masked)
    total = sum(cross_entropy(logits[b, t], int(labels[b, t])) for b, _, t in chosen)
    assert mean_of(out, "discriminator") == pytest.approx(total / len(chosen), rel=1e-5)
    assert mean_of(out, "generator") == pytest.approx(
        mlm_by_hand(generator_logits(model, masked), masked), rel=1e-5
    )


@pytest.mark.parametrize("padded", [False, True])
def test_replace_mlm(padded: bool):
    """Tokens are predicted at the chosen positions, where samples stand in place of [MASK]."""
    model = model_of("replace-mlm")
    masked = model.mask(random_batch(model, padded=padded))
    out = model(masked)
    corrupted, _ = corrupted_by_hand(masked, out.sampled)
    assert not (corrupted == MASK).any()
    logits = prediction_logits(model, masked, corrupted, masked.positions)
    assert mean_of(out, "discriminator") == pytest.approx(mlm_by_hand(logits, masked), rel=1e-5)
    expected = mean_of(out, "generator") + mean_of(out, "discriminator")  # no factor of 50
    assert out.loss().item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("padded", [False, True])
def test_mlm(padded: bool):
    """BERT: the main network alone, with [MASK] in its input."""
    model = model_of("mlm")
    masked = model.mask(random_batch(model, padded=padded))
    out = model(masked)
    assert (masked.masked_ids == MASK).any()
    logits = prediction_logits(model, masked, masked.masked_ids, masked.positions)
    assert list(out.terms) == ["discriminator"]
    assert out.loss().item() == pytest.approx(mlm_by_hand(logits, masked), rel=1e-5)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("sharing", ["embeddings", "gdes"])
def test_all_tokens_mlm(sharing: str, padded: bool):
    """p(x) = D [x = input] + (1 - D) softmax(x) at every real token (section 3.4)."""
    model = model_of("all-tokens-mlm", weight_sharing=sharing)
    masked = model.mask(random_batch(model, padded=padded))
    out = model(masked)
    originals = masked.batch.input_ids
    corrupted, _ = corrupted_by_hand(masked, out.sampled)
    everywhere = torch.arange(originals.shape[1]).expand_as(originals)
    vocabulary = prediction_logits(model, masked, corrupted, everywhere)
    gate = detection_logits(model, masked, corrupted)
    total, tokens = 0.0, tokens_of(masked.batch)
    for b, t in tokens:
        copied = sigmoid(-gate[b, t])  # the detection head's logit says "replaced"
        p = (1 - copied) * softmax(vocabulary[b, t])
        p[corrupted[b, t]] += copied
        assert p.sum() == pytest.approx(1)
        total -= math.log(p[originals[b, t]])
    assert mean_of(out, "discriminator") == pytest.approx(total / len(tokens), rel=1e-5)


def test_the_copy_gate_has_finite_gradients_where_a_token_cannot_be_copied():
    model = model_of("all-tokens-mlm")
    with torch.no_grad():  # sure that everything is copied
        model.discriminator_head.prediction.bias.fill_(-200.0)
    out = model(model.mask(random_batch(model)))
    out.loss().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert out.loss().item() < 1e4


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("options", [{}, {"sampling_temperature": 2.0}, {"disallow_correct": True}])
def test_electra_adversarial(options: dict[str, object], padded: bool):
    """Appendix F: reward, baseline and what is ascended, sample by sample."""
    model = model_of("electra-adversarial", **options)
    masked = model.mask(random_batch(model, padded=padded))
    out = model(masked)
    corrupted, labels = corrupted_by_hand(masked, out.sampled)
    logits = detection_logits(model, masked, corrupted)
    proposals = generator_logits(model, masked) / float(options.get("sampling_temperature", 1))
    mask = None if masked.batch.packed else masked.tokens.long()
    states = doubles(model.generator_states(masked.masked_ids, masked.batch.token_type_ids, mask))
    weight, bias = doubles(model.baseline.weight)[0], model.baseline.bias.item()
    gain, misses, chosen = 0.0, 0.0, chosen_of(masked)
    for b, n, t in chosen:
        row = proposals[b, n].copy()
        if options.get("disallow_correct"):
            row[masked.batch.input_ids[b, t]] = -np.inf
        reward = cross_entropy(logits[b, t], int(labels[b, t]))
        raw = float(weight @ states[b, t]) + bias
        baseline = -math.log(sigmoid(raw))
        gain += (reward - baseline) * math.log(softmax(row)[out.sampled[b, n]])
        misses += cross_entropy(raw, math.exp(-reward))
    assert mean_of(out, "generator") == pytest.approx(-gain / len(chosen), rel=1e-4)
    assert mean_of(out, "baseline") == pytest.approx(misses / len(chosen), rel=1e-5)
    tokens = tokens_of(masked.batch)
    total = sum(cross_entropy(logits[b, t], int(labels[b, t])) for b, t in tokens)
    assert mean_of(out, "discriminator") == pytest.approx(total / len(tokens), rel=1e-5)


# --- REINFORCE ------------------------------------------------------------------------------------


def one_slot(model: ElectraPretrainer) -> Masked:
    """A sequence with one chosen position."""
    masked = model.mask(random_batch(model, rows=1, length=12, seed=4))
    assert masked.weights.sum() == 1
    assert masked.positions.shape == (1, 1)
    return masked


def with_sample(masked: Masked, probabilities: Doubles, token: int) -> Masked:
    """The same with draws that make the generator sample `token` at the one chosen position."""
    cumulative = np.concatenate([[0.0], probabilities.cumsum()])
    draw = (cumulative[token] + cumulative[token + 1]) / 2
    samples = torch.tensor([[[0.5, draw]]], dtype=torch.float64)  # 60 pieces are one block
    noise = replace(masked.batch.noise, samples=samples)
    return replace(masked, batch=replace(masked.batch, noise=noise))


def gradient_of(loss: Tensor, model: ElectraPretrainer) -> dict[str, Tensor]:
    """Gradients of the generator's own parameters."""
    named = {
        name: parameter
        for name, parameter in model.named_parameters()
        if name.startswith(("generator.", "generator_head.", "generator_embeddings."))
    }
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if gradient is None else gradient
        for (name, parameter), gradient in zip(named.items(), found, strict=True)
    }


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("has_baseline", [False, True])
def test_reinforce_is_on_average_the_gradient_of_the_expected_reward(
    has_baseline: bool, temperature: float
):
    """Over all samples that there are, each weighed by its probability."""
    model = model_of(
        "electra-adversarial", weight_sharing="none", mask_fraction=0.1,
        sampling_temperature=temperature,
    )  # fmt: skip
    if not has_baseline:
        with torch.no_grad():  # -log sigmoid(100) = 0
            model.baseline.bias.fill_(100.0)
            model.baseline.weight.zero_()
    masked = one_slot(model)
    at, original = int(masked.positions), int(masked.originals)
    types = masked.batch.token_type_ids
    logits = model.generate(masked.masked_ids, types, masked.positions)[0, 0]
    probabilities = (logits / temperature).softmax(-1)

    # the gradient of sum_v p(v) R(v), R constant
    rows = masked.batch.input_ids.repeat(VOCAB_SIZE, 1)
    rows[:, at] = torch.arange(VOCAB_SIZE)
    judged = doubles(model.discriminate(rows, types.expand_as(rows)))[:, at]
    rewards = [cross_entropy(x, int(v != original)) for v, x in enumerate(judged)]
    expected_reward = (probabilities * torch.tensor(rewards, dtype=torch.float32)).sum()
    ascent = gradient_of(expected_reward, model)

    p = softmax(doubles(logits) / temperature)
    average = {name: torch.zeros_like(g) for name, g in ascent.items()}
    for token in range(VOCAB_SIZE):
        out = model(with_sample(masked, p, token))
        assert int(out.sampled) == token
        for name, gradient in gradient_of(out.terms["generator"].total, model).items():
            average[name] -= float(p[token]) * gradient  # the loss is to be descended
    scale = max(float(g.abs().max()) for g in ascent.values())
    assert scale > 1e-3
    for name, gradient in ascent.items():
        torch.testing.assert_close(average[name], gradient, rtol=1e-3, atol=1e-4 * scale)


@pytest.mark.parametrize("sharing", ["none", "embeddings", "gdes"])
def test_the_adversary_trains_the_generator_and_nothing_else(sharing: str):
    model = model_of("electra-adversarial", weight_sharing=sharing)
    out = model(model.mask(random_batch(model)))
    out.terms["generator"].total.backward()
    moved = moved_by_gradients(model)
    assert {"generator", "generator_head"} <= moved
    allowed = {"embeddings"} if sharing == "embeddings" else {"generator_embeddings"}
    assert moved - {"generator", "generator_head"} == allowed


def test_the_baseline_trains_nothing_but_itself():
    model = model_of("electra-adversarial")
    model(model.mask(random_batch(model))).terms["baseline"].total.backward()
    assert moved_by_gradients(model) == {"baseline"}


# --- who gets whose gradient ----------------------------------------------------------------------


def moved_by_gradients(model: ElectraPretrainer) -> set[str]:
    """The modules in which some gradient is not 0."""
    return {
        name.split(".")[0]
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and parameter.grad.any()
    }


@pytest.mark.parametrize(
    ("objective", "sharing"),
    [
        (objective, sharing)
        for objective in OBJECTIVES
        for sharing in ("none", "embeddings", "gdes")
        if objective != "mlm" and (objective != "electra-two-stage" or sharing == "none")
    ],
)
def test_the_main_loss_gives_the_generator_no_gradient(objective: str, sharing: str):
    model = model_of(objective, weight_sharing=sharing)
    out = model(model.mask(random_batch(model)))
    out.terms["discriminator"].total.backward()
    heads = {"discriminator_head"} if model.config.has_detection_head else set()
    heads |= {"language_head"} if model.config.has_language_head else set()
    # its tables are the main network's own, shared, or differences: they always learn
    assert moved_by_gradients(model) == {"embeddings", "discriminator"} | heads


@pytest.mark.parametrize("objective", ["electra", "replace-mlm", "electric"])
@pytest.mark.parametrize("sharing", ["none", "embeddings", "gdes"])
def test_the_generators_loss_reaches_only_it_and_what_is_shared(objective: str, sharing: str):
    model = model_of(objective, weight_sharing=sharing)
    model(model.mask(random_batch(model))).terms["generator"].total.backward()
    tables = "embeddings" if sharing == "embeddings" else "generator_embeddings"
    assert moved_by_gradients(model) == {"generator", "generator_head", tables}


def test_a_shared_body_learns_from_both_losses():
    model = model_of("electra", weight_sharing="all", generator_hidden_fraction=1.0)
    for name, heads in (
        ("generator", {"generator_head"}),
        ("discriminator", {"discriminator_head"}),
    ):
        model.zero_grad()
        model(model.mask(random_batch(model))).terms[name].total.backward()
        assert moved_by_gradients(model) == {"embeddings", "discriminator"} | heads


# --- two stages -----------------------------------------------------------------------------------


def test_two_stages_train_one_network_each():
    model = model_of("electra-two-stage")
    masked = model.mask(random_batch(model))
    first = model(masked, "generator")
    assert list(first.terms) == ["generator"]
    expected = mlm_by_hand(generator_logits(model, masked), masked)
    assert first.loss().item() == pytest.approx(expected, rel=1e-5)
    second = model(masked, "discriminator")
    assert list(second.terms) == ["discriminator"]
    assert torch.equal(second.sampled, first.sampled)
    assert torch.equal(second.generator_losses, first.generator_losses)
    second.loss().backward()
    frozen = ("generator.", "generator_head.", "generator_embeddings.")
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == name.startswith(frozen), name


def test_the_discriminator_starts_as_the_generator_and_then_goes_its_own_way():
    model = model_of("electra-two-stage")
    model.start_discriminator_from_generator()
    batch = random_batch(model)
    of_main = model.main_states(batch.input_ids, batch.token_type_ids)
    of_generator = model.generator_states(batch.input_ids, batch.token_type_ids)
    assert torch.equal(of_main, of_generator)
    before = of_generator.detach().clone()
    with torch.no_grad():
        for module in (model.embeddings, model.discriminator):
            for parameter in module.parameters():
                parameter.add_(1.0)
    assert torch.equal(model.generator_states(batch.input_ids, batch.token_type_ids), before)


# --- generators without weights -------------------------------------------------------------------


def noise_of(kind: str) -> Tensor:
    """Probabilities of pieces; some that are no special ones never occur."""
    table = torch.ones(VOCAB_SIZE, dtype=torch.float64)
    if kind == "unigram":
        table = torch.arange(VOCAB_SIZE, dtype=torch.float64) % 7
    table[:5] = 0
    return table / table.sum()


@pytest.mark.parametrize("kind", ["uniform", "unigram"])
def test_noise_follows_its_table(kind: str):
    table = noise_of(kind)
    model = random_model(noise=table, generator=kind)
    out = model(model.mask(random_batch(model, rows=2500, length=40)))
    assert list(out.terms) == ["discriminator"]
    assert model.generator is None
    counts = out.sampled[out.weights > 0].bincount(minlength=VOCAB_SIZE)
    possible = table > 0
    assert counts[~possible].sum() == 0
    assert counts.sum() > 10_000
    expected = table[possible] * counts.sum()
    assert chisquare(counts[possible].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["uniform", "unigram"])
def test_noise_without_the_original_keeps_the_odds_of_the_others(kind: str):
    table = noise_of(kind)
    model = random_model(noise=table, generator=kind, disallow_correct=True)
    batch = random_batch(model, rows=2500, length=40)
    frequent = batch.input_ids > 20
    batch.input_ids[frequent] = 12  # so that one original has many samples
    masked = model.mask(batch)
    sampled = model(masked).sampled[masked.weights > 0]
    originals = masked.originals[masked.weights > 0]
    assert (sampled != originals).all()
    assert (sampled >= 5).all()
    counts = sampled[originals == 12].bincount(minlength=VOCAB_SIZE)
    possible = (table > 0) & (torch.arange(VOCAB_SIZE) != 12)
    assert counts.sum() > 5000
    expected = table[possible] / table[possible].sum() * counts.sum()
    assert counts[~possible].sum() == 0
    assert chisquare(counts[possible].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("disallow_correct", [False, True])
@pytest.mark.parametrize("draw", [0.0, 1 - 2.0**-53])
def test_the_ends_of_the_unit_interval_draw_possible_noise(draw: float, disallow_correct: bool):
    table = noise_of("unigram")
    model = random_model(noise=table, generator="unigram", disallow_correct=disallow_correct)
    batch = random_batch(model, rows=200)
    batch.noise.samples.fill_(draw)
    sampled = model(model.mask(batch)).sampled
    assert (table[sampled] > 0).all()


@pytest.mark.parametrize("generator", ["learned", "uniform", "unigram"])
@pytest.mark.parametrize("objective", ["electra", "electra-15", "all-tokens-mlm"])
def test_what_may_not_be_correct_is_always_labelled_replaced(objective: str, generator: str):
    noise = None if generator == "learned" else noise_of(generator)
    model = random_model(
        noise=noise, objective=objective, generator=generator, disallow_correct=True
    )
    if generator == "learned":
        with torch.no_grad():  # the generator is as good as sure of one frequent token
            model.generator_head.bias[9] = 30.0
    batch = random_batch(model, rows=200)
    batch.input_ids[batch.input_ids > 20] = 9
    masked = model.mask(batch)
    out = model(masked)
    chosen = masked.weights > 0
    assert (out.sampled != masked.originals)[chosen].all()
    assert (out.labels.gather(1, masked.positions)[chosen] == 1).all()
    assert out.labels.sum() == chosen.sum()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_learned_generator_is_sampled_from_its_softmax(temperature: float):
    """All sequences are equal but for their draws, so their samples are of one distribution."""
    model = random_model(sampling_temperature=temperature, mask_token_fraction=1.0)
    batch = random_batch(model, rows=1, seed=2)
    rows = batch.input_ids.expand(20_000, -1)
    types = batch.token_type_ids.expand(20_000, -1)
    one = model.mask(batch)
    draws = torch.rand(
        20_000, one.positions.shape[1], 2, dtype=torch.float64,
        generator=torch.Generator().manual_seed(8),
    )  # fmt: skip
    noise = replace(
        batch.noise,
        positions=batch.noise.positions.expand(20_000, -1),
        mask=batch.noise.mask.expand(20_000, -1),
        samples=draws,
    )
    many = Batch(rows, types, noise, torch.zeros(20_000, dtype=torch.int64))
    with torch.no_grad():
        sampled = model.eval()(model.mask(many), "generator").sampled
    for n in range(sampled.shape[1]):
        p = softmax(generator_logits(model, one)[0, n] / temperature)
        counts = sampled[:, n].bincount(minlength=VOCAB_SIZE).numpy()
        common = p * 20_000 >= 5
        observed, expected = counts[common], p[common] / p[common].sum()
        assert observed.sum() > 19_000
        assert chisquare(observed, expected * observed.sum()).pvalue > 1e-3


# --- what metrics are made of ---------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_figures_carry_no_gradient_and_losses_are_in_single_precision(objective: str):
    model = model_of(objective)
    out = model(model.mask(random_batch(model, padded=True)))
    for name, value in vars(out).items():
        assert not (isinstance(value, Tensor) and value.requires_grad), name
    for name, term in out.terms.items():
        assert term.total.dtype == torch.float32, name
        assert term.total.requires_grad, name
        assert term.total.isfinite(), name
