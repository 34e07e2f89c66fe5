"""Hidden tokens of held-out sequences, and what each network of a run makes of them.

A discriminator's training is inverted: from "was it replaced?" to "which token stood here?". c is a
text with one hidden token, p(x) = p(x | c) the data's distribution there, q(x) that from which
replacements are drawn, m the share of tokens that are masked and a = (1 - m) / m. In training a
token x stands in the text

* as the original with probability (1 - m) p(x) where nothing was masked, and, since a sample that
  equals the original counts as original, with m p(x) q(x) where something was;
* as a replacement with probability m (1 - p(x)) q(x).

The discriminator that minimises its loss therefore gives x the odds of being the original
    r = D / (1 - D) = p (a + q) / (q (1 - p)),    which solved for p is
    p = r q / (a + q + r q) = D q / (a (1 - D) + q).
ELECTRA's paper (Clark et al. 2020, appendix G) evaluates ELECTRA as a masked language model by such
an inversion of the optimal discriminator. Where the loss is over masked positions alone
(electra-15), a = 0 and p = D.

With `disallow_correct`, samples come from q without the original, q(x) / (1 - q(original)): then
    r = a p / (q (S - p / (1 - q))),    S = sum over x' of p(x') / (1 - q(x')),
and p = S r q / (a + r q / (1 - q)), where S is the same for all x.

Electric's label stays "noise" where a sample equals the original, so there r = a p / q, that is p
proportional to q D / (1 - D); its network gives E(x) = -log p(x) + constant directly, without q.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from electrify.config.pretrain import PretrainConfig
from electrify.stage.masked_report import Context, Figure, Predictor
from model.batch import Batch, Masked
from model.electra import ElectraPretrainer, at_positions
from model.masking import forbid_tokens, mask_tokens, sample_tokens
from model.objectives import corrupt, generate_from_towers, generate_tokens

_LEAST = 1e-12  # of 1 - q


def check_invertible(config: PretrainConfig) -> None:
    """`ValueError` where a run's discriminator does not depend on what stood there, or where
    nothing proposes candidates."""
    if config.has_language_head or config.objective == "mlm":
        return
    if config.generator != "learned":
        raise ValueError(
            f"pretrain.generator = {config.generator!r} proposes the same tokens whatever the text "
            "says, so there are no candidates to weigh: predict-masked needs a learned generator, "
            "or an objective that predicts tokens"
        )
    if config.objective == "electra-15" and config.disallow_correct:
        raise ValueError(
            "objective = 'electra-15' with disallow_correct = true has the label 'replaced' "
            "everywhere: its discriminator says nothing about which token stood there"
        )


def invert(logits: Tensor, proposal: Tensor, config: PretrainConfig) -> Tensor:
    """log p(candidate), up to a constant of each row, as the best discriminator would mean it.

    `logits` (R, K) are high where it calls the candidate replaced, for electric its energies;
    `proposal` (R, K) is log q, with the run's sampling temperature. fp64.
    """
    odds, proposal = -logits.double(), proposal.double()
    if config.objective == "electric":
        return odds
    share = config.mask_fraction
    kept = -math.inf if config.objective == "electra-15" else math.log((1 - share) / share)
    kept_all = torch.full_like(odds, kept)
    joint = odds + proposal
    if config.disallow_correct:
        others = (1 - proposal.exp()).clamp(min=_LEAST).log()
        return joint - torch.logaddexp(kept_all, joint - others)
    return joint - torch.stack([kept_all, proposal, joint]).logsumexp(dim=0)


def credit(scores: Tensor, own: Tensor, within: int) -> Tensor:
    """The chance that a token of score `own` (R,) is among the first `within` of `scores` (R, K),
    in which it is, equal ones being in random order: (R,) fp64 in 0..1.

    A network that scores everything alike has the credit of a guess, not that of a hit.
    """
    above = (scores > own[:, None]).sum(dim=1)
    equal = (scores == own[:, None]).sum(dim=1)
    return ((within - above) / equal.clamp(min=1).double()).clamp(0, 1)


def spread_over_candidates(weights: Tensor, log_probs: Tensor) -> Tensor:
    """Candidates' log probabilities (R, K): their share of the generator's probability, given out
    among them by `weights` (R, K), logs up to a constant of the row.

    `log_probs` (R, K) are the generator's own. With its probabilities for all other tokens the sum
    is 1, so log-likelihoods compare with the generator's over all hidden tokens.
    """
    mass = log_probs.double().logsumexp(dim=1, keepdim=True)
    return weights.double().log_softmax(dim=1) + mass


_TOP = 5


@dataclass(frozen=True)
class HiddenTokens:
    """One hidden token a row, by itself: R rows, L positions.

    The main network's input has at the hidden position what is put there: [MASK], a sample or a
    candidate.
    """

    generator_ids: Tensor  # (R, L)
    main_ids: Tensor  # (R, L)
    token_type_ids: Tensor  # (R, L)
    attention_mask: Tensor | None  # (R, 1, 1 or L, L)
    position_ids: Tensor | None  # (R, L)
    positions: Tensor  # (R,) of the hidden token
    truths: Tensor  # (R,) what stood there
    draws: Tensor  # (R, 2) fp64, for a sample in its place
    sequences: Tensor  # (R,) the row of the batch

    def __len__(self) -> int:
        return len(self.truths)


@dataclass(frozen=True)
class Guesses:
    """What was made of R hidden tokens: figures (R,), more being better, and likeliest tokens."""

    figures: Mapping[Predictor, Mapping[Figure, Tensor]]
    found: Tensor | None  # (R,) whether the hidden token is a candidate
    likeliest: Mapping[Predictor, tuple[Tensor, Tensor]]  # ids and probabilities (R, 5)


def choose_slots(masked: Masked, number: int) -> tuple[Tensor, Tensor]:
    """At most `number` different chosen positions of each sequence: rows (R,), slots (R,).

    The first slots, whose order is random with single tokens, and by units with whole words.
    """
    pairs: list[tuple[int, int]] = []
    chosen = zip(masked.positions.tolist(), masked.weights.tolist(), strict=True)
    for row, (positions, weights) in enumerate(chosen):
        first = {p: slot for slot, p in reversed(list(enumerate(positions))) if weights[slot] > 0}
        pairs += [(row, slot) for slot in sorted(first.values())[:number]]
    made = torch.tensor(pairs, dtype=torch.int64).view(-1, 2)
    return made[:, 0], made[:, 1]


@torch.no_grad()
def hide(model: ElectraPretrainer, batch: Batch, number: int) -> dict[Context, HiddenTokens]:
    """The same tokens hidden in two ways.

    "as in training": all positions that training would choose are hidden at once, from the
    generator by [MASK] (it keeps none of them), and for a main network that reads no [MASK] by the
    generator's samples. "one at a time": everything else stands there as it was.
    """
    masked = model.mask(batch)
    rows, slots = (index.to(batch.input_ids.device) for index in choose_slots(masked, number))
    positions, truths = masked.positions[rows, slots], masked.originals[rows, slots]
    config, special, ids = model.config, model.special, batch.input_ids
    none = torch.zeros_like(batch.noise.mask)
    all_hidden = mask_tokens(ids, masked.positions, masked.weights, none, special.mask, 1.0)
    one_hidden = ids[rows].scatter(1, positions[:, None], special.mask)
    if config.objective == "mlm":
        main = all_hidden[rows], one_hidden
    else:
        # the towers of electric read the text itself and never the token they predict
        generate = generate_from_towers if config.objective == "electric" else generate_tokens
        samples = generate(model, replace(masked, masked_ids=all_hidden)).sampled
        main = corrupt(model, masked, samples)[0][rows], ids[rows]
    hidden = all_hidden[rows], one_hidden
    if config.objective == "electric":
        hidden = ids[rows], ids[rows]
    mask, places = masked.attention_mask, masked.position_ids
    together = HiddenTokens(
        generator_ids=hidden[0],
        main_ids=main[0],
        token_type_ids=batch.token_type_ids[rows],
        attention_mask=None if mask is None else mask[rows],
        position_ids=None if places is None else places[rows],
        positions=positions,
        truths=truths,
        draws=batch.noise.samples[rows, slots],
        sequences=rows,
    )
    alone = replace(together, generator_ids=hidden[1], main_ids=main[1])
    return {"as in training": together, "one at a time": alone}


@torch.no_grad()
def guess(
    model: ElectraPretrainer, hidden: HiddenTokens, num_candidates: int, batch_size: int
) -> Guesses:
    """What the generator and the main network make of hidden tokens, `batch_size` sequences a pass.

    `ValueError` where logits are not finite.
    """
    parts = [
        _guess(model, _rows(hidden, slice(start, start + batch_size)), num_candidates, batch_size)
        for start in range(0, len(hidden), batch_size)
    ]
    first = parts[0]
    return Guesses(
        {
            name: {figure: torch.cat([p.figures[name][figure] for p in parts]) for figure in of}
            for name, of in first.figures.items()
        },
        None if first.found is None else torch.cat([p.found for p in parts if p.found is not None]),
        {
            name: (
                torch.cat([p.likeliest[name][0] for p in parts]),
                torch.cat([p.likeliest[name][1] for p in parts]),
            )
            for name in first.likeliest
        },
    )


def _rows(hidden: HiddenTokens, part: slice) -> HiddenTokens:
    values = {field.name: getattr(hidden, field.name) for field in fields(hidden)}
    cut: dict[str, Any] = {k: None if v is None else v[part] for k, v in values.items()}
    return HiddenTokens(**cut)


def _guess(
    model: ElectraPretrainer, hidden: HiddenTokens, num_candidates: int, batch_size: int
) -> Guesses:
    config = model.config
    if config.objective == "mlm":
        return _of_vocabulary({"main": _language_log_probs(model, hidden, hidden.main_ids)}, hidden)
    logits = model.generate(
        hidden.generator_ids,
        hidden.token_type_ids,
        hidden.positions[:, None],
        hidden.attention_mask,
        hidden.position_ids,
    )[:, 0].float()
    log_probs = _finite(logits).log_softmax(dim=-1)
    found = _of_vocabulary({"generator": log_probs}, hidden)
    if config.has_language_head:
        allowed = forbid_tokens(logits, hidden.truths) if config.disallow_correct else logits
        sampled = sample_tokens(allowed, hidden.draws, config.sampling_temperature)
        filled = hidden.main_ids.scatter(1, hidden.positions[:, None], sampled[:, None])
        main = _language_log_probs(model, hidden, filled, sampled)
        others = _of_vocabulary({"main": main}, hidden)
    else:
        others = _of_candidates(model, hidden, logits, log_probs, num_candidates, batch_size)
    return Guesses(
        {**found.figures, **others.figures}, others.found, {**found.likeliest, **others.likeliest}
    )


def _language_log_probs(
    model: ElectraPretrainer, hidden: HiddenTokens, ids: Tensor, sampled: Tensor | None = None
) -> Tensor:
    """The main network's log p (R, V) at the hidden positions of `ids` (R, L).

    All-tokens MLM copies what it reads, here `sampled` (R,), with the probability of its gate:
    p(x) = D [x = sampled] + (1 - D) softmax(x), as in training.
    """
    states = model.main_states(
        ids, hidden.token_type_ids, hidden.attention_mask, hidden.position_ids
    )
    states = at_positions(states, hidden.positions[:, None])[:, 0]
    log_probs = _finite(model.language_logits(states).float()).log_softmax(dim=-1)
    if model.config.objective != "all-tokens-mlm":
        return log_probs
    assert sampled is not None
    raw = _finite(model.detection_logits(states).float())[:, None]
    copied = torch.full_like(log_probs, float("-inf"))
    copied = copied.scatter(1, sampled[:, None], F.logsigmoid(-raw))
    return torch.logaddexp(copied, F.logsigmoid(raw) + log_probs)


def _of_vocabulary(log_probs: Mapping[Predictor, Tensor], hidden: HiddenTokens) -> Guesses:
    """Figures of predictors that know log p (R, V) of every token."""
    figures, likeliest = {}, {}
    for name, values in log_probs.items():
        own = values.gather(1, hidden.truths[:, None])[:, 0]
        figures[name] = _hits(values, own) | {"log_likelihood": own.double()}
        top = values.topk(min(_TOP, values.shape[1]), dim=1)
        likeliest[name] = top.indices, top.values.exp()
    return Guesses(figures, None, likeliest)


def _of_candidates(
    model: ElectraPretrainer,
    hidden: HiddenTokens,
    logits: Tensor,
    log_probs: Tensor,
    num_candidates: int,
    batch_size: int,
) -> Guesses:
    """Figures of the discriminator: by itself, and with the generator's probabilities inverted.

    A hidden token that is no candidate is a miss; its log-likelihood is the generator's.
    """
    config, truths = model.config, hidden.truths
    known, candidates = log_probs.topk(min(num_candidates, log_probs.shape[1]), dim=1)
    proposal = (logits / config.sampling_temperature).log_softmax(dim=-1).gather(1, candidates)
    called = _finite(_detection_logits(model, hidden, candidates, batch_size))
    weights = invert(called, proposal, config)
    is_truth = candidates == truths[:, None]
    found, place = is_truth.any(dim=1), is_truth.int().argmax(dim=1, keepdim=True)
    spread = spread_over_candidates(weights, known)
    at_truth = spread.gather(1, place)[:, 0]
    missed = log_probs.gather(1, truths[:, None])[:, 0].double()
    figures: dict[Predictor, dict[Figure, Tensor]] = {
        "inversion": _hits(weights, weights.gather(1, place)[:, 0], found)
        | {"log_likelihood": torch.where(found, at_truth, missed)}
    }
    if config.objective != "electric":  # whose energies need no generator: these are the same
        alone = -called.double()
        figures["discriminator"] = _hits(alone, alone.gather(1, place)[:, 0], found)
    top = spread.topk(min(_TOP, spread.shape[1]), dim=1)
    ids = candidates.gather(1, top.indices)
    return Guesses(figures, found, {"inversion": (ids, top.values.exp())})


def _detection_logits(
    model: ElectraPretrainer, hidden: HiddenTokens, candidates: Tensor, batch_size: int
) -> Tensor:
    """(R, K) logits of the detection head with each candidate (R, K) in the hidden position."""
    number = candidates.shape[1]
    found = []
    for cells in torch.split(
        torch.arange(candidates.numel(), device=candidates.device), batch_size
    ):
        rows = cells // number
        places = hidden.positions[rows][:, None]
        ids = hidden.main_ids[rows].scatter(1, places, candidates.flatten()[cells][:, None])
        mask, order = hidden.attention_mask, hidden.position_ids
        states = model.main_states(
            ids,
            hidden.token_type_ids[rows],
            None if mask is None else mask[rows],
            None if order is None else order[rows],
        )
        found.append(model.detection_logits(at_positions(states, places))[:, 0].float())
    return torch.cat(found).view(candidates.shape)


def _hits(scores: Tensor, own: Tensor, found: Tensor | None = None) -> dict[Figure, Tensor]:
    """First guesses, and first five, of which `own` (R,) is the hidden token's score."""
    hits: dict[Figure, Tensor] = {
        "accuracy": credit(scores, own, 1),
        "top5_accuracy": credit(scores, own, _TOP),
    }
    return hits if found is None else {name: of * found for name, of in hits.items()}


def _finite(logits: Tensor) -> Tensor:
    if not bool(logits.isfinite().all()):
        raise ValueError(
            "a network's logits are not finite: its training broke before this checkpoint. Name "
            "an earlier one by --checkpoint"
        )
    return logits
