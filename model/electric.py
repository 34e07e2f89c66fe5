"""Electric (Clark et al. 2020b): an energy for every token, trained against noise that is known.

Source: sections 2.1-2.3 of the paper; google-research/electra run_pretraining.py:194-251.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from model.batch import Masked, Outputs, Term
from model.head_loss import Sampling, head_loss
from model.passes import (
    Detected,
    Generated,
    at_positions,
    corrupt,
    generator_output,
    generator_states,
    main_states,
    outputs_of,
    sample_noise,
    with_detected,
)

if TYPE_CHECKING:
    from model.electra import ElectraPretrainer

_LEAST = torch.finfo(torch.float32).tiny


def generate_from_towers(model: "ElectraPretrainer", masked: Masked) -> Generated:
    """Noise q(x | the rest) at the chosen positions, by a cloze model of two towers.

    It reads the unchanged input, and its loss is over all maskable tokens. `noise_log_probs` is
    log q of every token of the corrupted input. A generator without weights has one q everywhere.
    """
    ids, at = masked.batch.input_ids, masked.positions
    if model.config.generator != "learned":
        assert model.noise_probabilities is not None
        sampled = sample_noise(model, masked)
        noised, _ = corrupt(model, masked, sampled)
        # what is never drawn, as [UNK], has q = 0: the least number makes it data, log 0 a nan
        log_probs = model.noise_probabilities.float().clamp(min=_LEAST).log()
        return Generated(sampled, noise_log_probs=log_probs[noised])
    head, table = generator_output(model)
    states = head.transform(generator_states(model, masked, ids))
    found = head_loss(states, table, head.bias, ids, masked.maskable.float())
    term = Term(found.total, "candidates", model.config.generator_weight)
    with torch.no_grad():
        chosen, sampling = at_positions(states, at), Sampling(masked.batch.noise.samples)
        drawn = head_loss(chosen, table, head.bias, masked.originals, masked.weights, sampling)
    assert drawn.sampled is not None
    assert drawn.sampled_losses is not None
    kept = found.losses.gather(1, at)
    losses = torch.where(masked.weights > 0, drawn.sampled_losses, kept)
    noise = -found.losses.scatter(1, at, losses)
    return Generated(drawn.sampled, term, kept, found.hits.gather(1, at), noise_log_probs=noise)


def contrast_noise(model: "ElectraPretrainer", masked: Masked, generated: Generated) -> Outputs:
    """Noise-contrastive estimation: is a token noise or data?

    A token x is noise with log odds E(x) + log q(x) + log(p / (1 - p)), E being the detection
    head's logit and p the share of noise; no gradient reaches q. A sample that equals the original
    is noise all the same. The loss, and the figures, are over maskable tokens: the others are never
    noise.
    """
    assert generated.noise_log_probs is not None
    corrupted, _ = corrupt(model, masked, generated.sampled)
    energies = model.detection_logits(main_states(model, masked, corrupted)).float()
    share = math.log(model.config.mask_fraction / (1 - model.config.mask_fraction))
    logits = energies + generated.noise_log_probs + share
    labels = torch.zeros_like(energies).scatter_add(1, masked.positions, masked.weights)
    losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    main = Term((losses * masked.maskable).sum(), "candidates", model.config.main_weight)
    outputs = outputs_of(masked, {"generator": generated.term, "discriminator": main})
    outputs = replace(outputs, tokens=masked.maskable)
    return with_detected(outputs, Detected(corrupted, labels, logits, losses))
