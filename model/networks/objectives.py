"""The other objectives: what each does otherwise than ELECTRA.

Source: ELECTRA (Clark et al. 2020), section 3.4 and appendix F.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from electrify.config.pretrain import PretrainConfig
from model.networks.batch import (
    Detected,
    Masked,
    Outputs,
    Predictions,
    Samples,
    SpecialTokens,
    Term,
    Terms,
)
from model.networks.electra import ElectraPretrainer, at_positions, corrupt
from model.networks.masking import sample_tokens
from model.networks.vocabulary import is_most_likely, token_losses
from model.plan import Stage


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
        guesses = self.language_output().logits(hidden)
        predicted, hits = (
            -token_losses(guesses, originals),
            is_most_likely(guesses.detach(), originals),
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
        hidden = self.generator_states(masked.masked_ids, *masked.context)
        hidden = at_positions(hidden, masked.positions)
        logits = self.generator_output().logits(hidden)
        losses = token_losses(logits.detach(), masked.originals)
        hits = is_most_likely(logits.detach(), masked.originals)
        ids = sample_tokens(logits, masked.batch.noise.samples)
        log_probs = -token_losses(logits, ids)
        predicted = Predictions(losses, hits)
        return RewardedSamples(ids, predicted, hidden=hidden.detach(), log_probs=log_probs), {}

    def main_loss(self, masked: Masked, samples: Samples, terms: Terms) -> Outputs:
        assert isinstance(samples, RewardedSamples)
        assert self.baseline is not None
        outputs = super().main_loss(masked, Samples(samples.ids, samples.predicted), terms)
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


OBJECTIVES: dict[str, type[ElectraPretrainer]] = {
    "electra": ElectraPretrainer,
    "electra-15": ChosenTokens,
    "electra-adversarial": AdversarialElectra,
    "electra-two-stage": ElectraPretrainer,
    "replace-mlm": ReplaceMLM,
    "all-tokens-mlm": AllTokensMLM,
    "mlm": MaskedLanguageModel,
}


def make_pretrainer(
    config: PretrainConfig, vocab_size: int, special: SpecialTokens
) -> ElectraPretrainer:
    """The networks of the config's objective, with its loss as their forward pass."""
    return OBJECTIVES[config.objective](config, vocab_size, special)
