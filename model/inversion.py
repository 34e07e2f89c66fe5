"""A discriminator's training inverted: from "was it replaced?" to "which token stood here?".

c is a text with one hidden token, p(x) = p(x | c) the data's distribution there, q(x) that from
which replacements are drawn, m the share of tokens that are masked and a = (1 - m) / m. In training
a token x stands in the text

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

Electric's label stays "noise" where a sample equals the original, so there r = a p / q, that is
p proportional to q D / (1 - D); its network gives E(x) = -log p(x) + constant directly, without q.
"""

import math

import torch
from torch import Tensor

from electrify.config_pretrain import PretrainConfig

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
