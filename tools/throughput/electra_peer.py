"""The step that a competent user of `transformers` writes: the peer that ours is timed against.

As the best-known PyTorch recipe has it: the library's own classes share one embedding module, the
generator's head runs over all positions, cross-entropy and Gumbel sampling see the masked ones, and
the discriminator's binary cross-entropy counts 50 times. What would only slow it is left out: lists
of token types, an attention mask where nothing is padded, an optimiser that is not batched.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electrify.config.pretrain import PretrainConfig
from model.devices.device import autocast
from model.networks.batch import SpecialTokens
from model.networks.electra import ElectraPretrainer
from model.plan import learning_rate
from model.weights.names import DETECTOR, GENERATOR, to_transformers


class PeerLosses(NamedTuple):
    """Means over the positions of one forward pass."""

    generator: Tensor
    discriminator: Tensor
    total: Tensor


class HuggingFaceElectra(nn.Module):
    """`ElectraForMaskedLM` and `ElectraForPreTraining` around one embedding module."""

    def __init__(self, generator: Any, discriminator: Any, weights: tuple[float, float]) -> None:
        super().__init__()
        generator.electra.embeddings = discriminator.electra.embeddings
        generator.generator_lm_head.weight = generator.electra.embeddings.word_embeddings.weight
        self.generator, self.discriminator = generator, discriminator
        self.weights = weights

    def forward(
        self,
        input_ids: Tensor,  # (B, L), the original text
        masked_ids: Tensor,  # (B, L)
        is_chosen: Tensor,  # (B, L) bool
        token_type_ids: Tensor,  # (B, L)
        sampled: Tensor | None = None,  # (number chosen,) in the order of the text; None: sample
    ) -> PeerLosses:
        """Losses of a batch; `sampled` takes the place of sampling, for comparisons."""
        logits = self.generator(masked_ids, token_type_ids=token_type_ids).logits[is_chosen]
        originals = input_ids[is_chosen]
        generator_loss = F.cross_entropy(logits.float(), originals)
        with torch.no_grad():
            if sampled is None:
                sampled = gumbel_sample(logits)
            corrupted = input_ids.masked_scatter(is_chosen, sampled)
            labels = corrupted != input_ids
        found = self.discriminator(corrupted, token_type_ids=token_type_ids).logits.float()
        detection_loss = F.binary_cross_entropy_with_logits(found, labels.to(found.dtype))
        total = self.weights[0] * generator_loss + self.weights[1] * detection_loss
        return PeerLosses(generator_loss, detection_loss, total)


def gumbel_sample(logits: Tensor) -> Tensor:
    """argmax of logits plus Gumbel noise: a sample from their softmax, (N, V) to (N,)."""
    uniform = torch.rand_like(logits, dtype=torch.float32).clamp_(min=1e-20)
    return (logits.float() - torch.log(-torch.log(uniform))).argmax(dim=-1)


def peer_of(model: ElectraPretrainer) -> HuggingFaceElectra:
    """The peer with the weights of ours, on the CPU, in training mode."""
    config = model.config
    assert (config.objective, config.weight_sharing) == ("electra", "embeddings")
    generator, discriminator = (to_transformers(model, name) for name in (GENERATOR, DETECTOR))
    for network in (generator, discriminator):
        network.set_attn_implementation("sdpa")
    weights = config.generator_weight, config.main_weight
    return HuggingFaceElectra(generator, discriminator, weights).train()


def choose(
    input_ids: Tensor, special: SpecialTokens, config: PretrainConfig
) -> tuple[Tensor, Tensor]:
    """The recipe's dynamic masking: each token by itself; the generator's input, what is chosen."""
    maskable = (input_ids != special.cls) & (input_ids != special.sep)
    # as many positions as ours chooses, [CLS] and [SEP] being out
    length = input_ids.shape[1]
    share = round(config.mask_fraction * length) / (length - 3)
    is_chosen = (torch.rand(input_ids.shape, device=input_ids.device) < share) & maskable
    shown = torch.rand(input_ids.shape, device=input_ids.device) < config.mask_token_fraction
    return input_ids.masked_fill(is_chosen & shown, special.mask), is_chosen


def make_peer_optimizer(
    peer: HuggingFaceElectra, config: PretrainConfig, fused: bool
) -> torch.optim.AdamW:
    """torch's AdamW, batched (`foreach`) or fused; biases and LayerNorms are not decayed."""
    groups: list[dict[str, Any]] = [
        {"params": [], "weight_decay": config.weight_decay},
        {"params": [], "weight_decay": 0.0},
    ]
    for name, parameter in peer.named_parameters():
        groups[name.endswith("bias") or "LayerNorm" in name]["params"].append(parameter)
    how = {"fused": True} if fused else {"foreach": True}
    betas = (config.adam_beta1, config.adam_beta2)
    return torch.optim.AdamW(groups, config.learning_rate, betas, config.adam_epsilon, **how)


def peer_step(
    peer: nn.Module,
    optimizer: torch.optim.Optimizer,
    input_ids: Tensor,  # (B, L) int64, of full sequences
    token_type_ids: Tensor,
    config: PretrainConfig,
    special: SpecialTokens,
    step: int,
) -> Tensor:
    """One update of the peer (`HuggingFaceElectra`, compiled or not); its total loss."""
    masked_ids, is_chosen = choose(input_ids, special, config)
    with autocast(config, input_ids.device):
        losses: PeerLosses = peer(input_ids, masked_ids, is_chosen, token_type_ids)
    losses.total.backward()  # type: ignore[no-untyped-call]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, config.max_gradient_norm, foreach=True)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, config)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return losses.total.detach()
