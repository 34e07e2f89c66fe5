"""The other objectives: what each does otherwise than ELECTRA.

Sources: ELECTRA (Clark et al. 2020), section 3.4 and appendix F; Electric (Clark et al. 2020b),
sections 2.1-2.3, google-research/electra run_pretraining.py:194-251.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from electrify.config.pretrain import PretrainConfig
from model.batch import (
    Corrupted,
    Detected,
    Masked,
    Outputs,
    Predictions,
    Samples,
    SpecialTokens,
    Term,
    Terms,
)
from model.electra import ElectraPretrainer, at_positions, corrupt
from model.masking import forbid_tokens, sample_tokens
from model.plan import Stage
from model.vocabulary_head import (
    Sampling,
    gathered_log_probs,
    head_loss,
    is_most_likely,
    token_losses,
)


class MaskedLanguageModel(ElectraPretrainer):
    """BERT's objective (mlm)."""

    def forward(
        self, masked: Masked, stage: Stage = "joint", samples: Samples | None = None
    ) -> Outputs:
        return self.predict_masked(masked)


class ChosenTokens(ElectraPretrainer):
    """ELECTRA 15 % (section 3.4): the loss is over the chosen positions only."""

    def detection_term(self, masked: Masked, losses: Tensor) -> tuple[Term, Tensor]:
        total = (losses.gather(1, masked.positions) * masked.weights).sum()
        chosen = torch.zeros_like(losses).scatter_add(1, masked.positions, masked.weights) > 0
        return Term(total, "chosen", self.config.main_weight), chosen


class ReplaceMLM(ElectraPretrainer):
    """Replace MLM (section 3.4): predict the tokens at the chosen positions, where samples of the
    generator stand in place of [MASK]."""

    def main_loss(self, masked: Masked, samples: Samples, terms: Terms) -> Outputs:
        corrupted = corrupt(masked, samples)
        term, predicted = self.predict_from(masked, corrupted.ids, self.config.main_weight)
        terms = terms | {"discriminator": term}
        return Outputs(masked, terms, samples, corrupted, predicted=predicted)


class AllTokensMLM(ElectraPretrainer):
    """All-tokens MLM (section 3.4): predict every token, with a copy gate.

    p(x) = D [x = input] + (1 - D) softmax(x), with D = sigmoid(-r) the probability of copying and r
    the detection head's logit, so that "replaced" is "not copied". Hits are those of the softmax
    alone, which is what an export of the language head predicts.
    """

    def main_loss(self, masked: Masked, samples: Samples, terms: Terms) -> Outputs:
        originals, at = masked.batch.input_ids, masked.positions
        corrupted = corrupt(masked, samples)
        hidden = self.main_states(corrupted.ids, *masked.context)
        raw = self.detection_logits(hidden).float()
        predicted, hits = gathered_log_probs(
            self.language_output().logits, hidden, originals, self.shape.vocab_size
        )
        copied = F.logsigmoid(-raw).masked_fill(corrupted.ids != originals, float("-inf"))
        log_probs = torch.stack([copied, F.logsigmoid(raw) + predicted]).logsumexp(dim=0)
        term = Term(-(log_probs * masked.tokens).sum(), "tokens", self.config.main_weight)
        losses = F.binary_cross_entropy_with_logits(
            raw.detach(), corrupted.labels, reduction="none"
        )
        return Outputs(
            masked,
            terms | {"discriminator": term},
            samples,
            corrupted,
            Detected(raw.detach(), losses, masked.tokens),
            Predictions(-log_probs.detach().gather(1, at), hits.gather(1, at)),
        )


@dataclass(frozen=True, kw_only=True)
class RewardedSamples(Samples):
    hidden: Tensor  # (B, N, H), detached
    log_probs: Tensor  # (B, N) log p(sample), with gradient


class AdversarialElectra(ElectraPretrainer):
    """Adversarial ELECTRA (appendix F): REINFORCE with a learned baseline.

    The reward of a sample is the discriminator's loss at its position, R. The baseline is
    b = -log sigmoid(w h), h being the generator's hidden state there, trained by cross-entropy
    between sigmoid(w h) and exp(-R), the probability that the discriminator gave to the right
    label. The generator ascends (R - b) log p(sample). h is detached: only rewards shape the
    generator's body.
    """

    def sample_replacements(self, masked: Masked) -> tuple[Samples, Terms]:
        """All logits are kept: the weights of log p come from the discriminator."""
        config = self.config
        hidden = self.generator_states(masked.masked_ids, *masked.context)
        hidden = at_positions(hidden, masked.positions)
        logits = self.generator_output().logits(hidden)
        losses = token_losses(logits.detach(), masked.originals)
        hits = is_most_likely(logits.detach(), masked.originals)
        allowed = forbid_tokens(logits, masked.originals) if config.disallow_correct else logits
        ids = sample_tokens(allowed, masked.batch.noise.samples, config.sampling_temperature)
        log_probs = -token_losses(allowed.float() / config.sampling_temperature, ids)
        predicted = Predictions(losses, hits)
        return RewardedSamples(ids, predicted, hidden=hidden.detach(), log_probs=log_probs), {}

    def main_loss(self, masked: Masked, samples: Samples, terms: Terms) -> Outputs:
        assert isinstance(samples, RewardedSamples)
        assert self.baseline is not None
        plain = Samples(samples.ids, samples.predicted)
        outputs = super().main_loss(masked, plain, terms)
        assert outputs.detected is not None
        reward = outputs.detected.losses.gather(1, masked.positions)
        raw = self.baseline(samples.hidden).squeeze(-1).float()
        advantage = (reward + F.logsigmoid(raw)).detach()
        gain = (advantage * samples.log_probs * masked.weights).sum()
        misses = F.binary_cross_entropy_with_logits(raw, torch.exp(-reward), reduction="none")
        weight = self.config.generator_weight
        terms = {
            "generator": Term(-gain, "chosen", weight),
            **outputs.terms,
            "baseline": Term((misses * masked.weights).sum(), "chosen", weight),
        }
        return replace(outputs, terms=terms)


_LEAST = torch.finfo(torch.float32).tiny


class Electric(ElectraPretrainer):
    """Electric: noise-contrastive estimation of an energy for every token.

    A token x is noise with log odds E(x) + log q(x) + log(p / (1 - p)), E being the detection
    head's logit and p the fraction of noise; no gradient reaches q. A sample that equals the
    original is noise all the same. Loss and figures are over maskable tokens: the others are never
    noise.
    """

    def sample_replacements(self, masked: Masked) -> tuple[Samples, Terms]:
        """Noise q(x | the rest) at the chosen positions, by a cloze model of two towers.

        It reads the unchanged input, and its loss is over all maskable tokens. A generator without
        weights has one q everywhere.
        """
        ids, at = masked.batch.input_ids, masked.positions
        if self.config.generator != "learned":
            assert self.noise_probabilities is not None
            samples = Samples(self.sample_noise(masked))
            # what is never drawn, as [UNK], has q = 0: the least number makes it data, log 0 a nan
            log_probs = self.noise_probabilities.float().clamp(min=_LEAST).log()
            noise = log_probs[corrupt(masked, samples).ids]
            return replace(samples, noise_log_probs=noise), {}
        head, matrix, _ = self.generator_output()
        hidden = head.transform(self.generator_states(ids, *masked.context))
        likelihoods = head_loss(hidden, matrix, head.bias, ids, masked.maskable.float())
        term = Term(likelihoods.total, "candidates", self.config.generator_weight)
        with torch.no_grad():
            chosen, sampling = at_positions(hidden, at), Sampling(masked.batch.noise.samples)
            drawn = head_loss(chosen, matrix, head.bias, masked.originals, masked.weights, sampling)
        assert drawn.sampled is not None
        assert drawn.sampled_losses is not None
        kept = likelihoods.losses.gather(1, at)
        losses = torch.where(masked.weights > 0, drawn.sampled_losses, kept)
        noise = -likelihoods.losses.scatter(1, at, losses)
        predicted = Predictions(kept, likelihoods.hits.gather(1, at))
        return Samples(drawn.sampled, predicted, noise), {"generator": term}

    def main_loss(self, masked: Masked, samples: Samples, terms: Terms) -> Outputs:
        assert samples.noise_log_probs is not None
        ids = corrupt(masked, samples).ids
        energies = self.detection_logits(self.main_states(ids, *masked.context)).float()
        fraction = masked.batch.mask_fraction or self.config.mask_fraction
        odds = math.log(fraction / (1 - fraction))
        logits = energies + samples.noise_log_probs + odds
        labels = torch.zeros_like(energies).scatter_add(1, masked.positions, masked.weights)
        losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        total = (losses * masked.maskable).sum()
        term = Term(total, "candidates", self.config.main_weight)
        return Outputs(
            masked,
            terms | {"discriminator": term},
            samples,
            Corrupted(ids, labels),
            Detected(logits.detach(), losses.detach(), masked.maskable),
        )


OBJECTIVES: dict[str, type[ElectraPretrainer]] = {
    "electra": ElectraPretrainer,
    "electra-15": ChosenTokens,
    "electra-adversarial": AdversarialElectra,
    "electra-two-stage": ElectraPretrainer,
    "replace-mlm": ReplaceMLM,
    "all-tokens-mlm": AllTokensMLM,
    "electric": Electric,
    "mlm": MaskedLanguageModel,
}


def make_pretrainer(
    config: PretrainConfig,
    vocab_size: int,
    special: SpecialTokens,
    noise_probabilities: Tensor | None = None,
) -> ElectraPretrainer:
    """The networks of the config's objective, with its loss as their forward pass."""
    return OBJECTIVES[config.objective](config, vocab_size, special, noise_probabilities)
