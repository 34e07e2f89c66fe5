"""Electric (Clark et al. 2020b): an energy for every token, trained against noise that is known.

Source: sections 2.1-2.3 of the paper; google-research/electra run_pretraining.py:194-251.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from model.batch import Masked, Outputs, Term
from model.corrupt import sample_tokens
from model.log_probs import gathered_log_probs, token_losses
from model.passes import (
    Detected,
    Generated,
    at_positions,
    corrupt,
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
    states = generator_states(model, masked, ids)
    log_probs, hits = gathered_log_probs(model.generator_logits, states, ids)
    term = Term(-(log_probs * masked.maskable).sum(), "candidates", model.config.generator_weight)
    kept = log_probs.detach().gather(1, at)
    with torch.no_grad():
        logits = model.generator_logits(at_positions(states, at))
        sampled = sample_tokens(logits, masked.batch.noise.samples)
        drawn = torch.where(masked.weights > 0, -token_losses(logits, sampled), kept)
    noise = log_probs.detach().scatter(1, at, drawn)
    return Generated(sampled, term, -kept, hits.gather(1, at), noise_log_probs=noise)


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
    share = torch.logit(torch.tensor(model.config.mask_fraction)).item()
    logits = energies + generated.noise_log_probs + share
    labels = torch.zeros_like(energies).scatter_add(1, masked.positions, masked.weights)
    losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    main = Term((losses * masked.maskable).sum(), "candidates", model.config.main_weight)
    outputs = outputs_of(masked, {"generator": generated.term, "discriminator": main})
    outputs = replace(outputs, tokens=masked.maskable)
    return with_detected(outputs, Detected(corrupted, labels, logits, losses))
