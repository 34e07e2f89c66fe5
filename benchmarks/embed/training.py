"""Contrastive training: each text is to find its positive among all texts of the batch (InfoNCE;
van den Oord et al. 2018, Henderson et al. 2017)."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.embed.pairs import Pair
from benchmarks.embed.sentences import SentenceEncoder
from benchmarks.finetune.finetune import seeded
from benchmarks.finetune.optim import build_optimizer, set_rates
from benchmarks.finetune.recipe import HyperParameters, Size, size_of
from benchmarks.finetune.training import Unfinished
from electrify.config.evaluate import EmbedConfig
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, Stopped, StopRequest

_LOSSES = 50  # steps between two looks at the losses, which wait for a GPU
_RATES: Mapping[Size, float] = {"small": 3e-4, "base": 5e-5, "large": 2e-5}


def recipe_of(options: EmbedConfig, hidden_size: int) -> HyperParameters:
    """What the optimizer of fine-tuning takes, for an encoder of that width."""
    return HyperParameters(
        recipe="contrastive",
        learning_rate=options.learning_rate or _RATES[size_of(hidden_size)],
        layer_lr_decay=1.0,
        schedule="linear",
        warmup_fraction=options.warmup_fraction,
        weight_decay=0.01,
        adam_epsilon=1e-8,
    )


def contrastive_loss(
    anchors: Tensor, candidates: Tensor, is_masked: Tensor, temperature: float
) -> Tensor:
    """The mean of -log softmax(cosine / temperature) of anchor i and candidate i.

    Anchors (B, H) and candidates (C, H) have length 1; the first B candidates are the positives.
    `is_masked` (B, C) leaves candidates out that belong to an anchor, too.
    """
    logits = (anchors @ candidates.T / temperature).masked_fill(is_masked, -math.inf)
    return F.cross_entropy(logits, torch.arange(len(anchors), device=logits.device))


def false_negatives(batch: Sequence[Pair], positives: Mapping[str, set[str]]) -> NDArray[np.bool_]:
    """Which candidates of a batch, positives and then negatives, are other positives of an anchor
    or its own text: (B, C)."""
    candidates = [*(p.positive for p in batch), *(p.negative for p in batch if p.negative)]
    masked = np.array(
        [[c in positives[pair.anchor] or c == pair.anchor for c in candidates] for pair in batch]
    )
    masked[np.arange(len(batch)), np.arange(len(batch))] = False
    return masked


def batches_of(
    sizes: Sequence[int], batch_size: int, num_epochs: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Numbers of the pairs of each step, over sources that stand one behind the other.

    A batch is of one source, whose texts are of a kind. What is left behind the last whole batch of
    an epoch waits for another epoch; a source of fewer pairs is one batch.
    """
    batches: list[NDArray[np.int64]] = []
    starts = np.cumsum([0, *sizes[:-1]])
    for _ in range(num_epochs):
        epoch = []
        for start, size in zip(starts, sizes, strict=True):
            order = start + rng.permutation(size)
            num_whole = max(1, size // batch_size)
            epoch += list(np.array_split(order[: num_whole * batch_size], num_whole))
        batches += [epoch[number] for number in rng.permutation(len(epoch))]
    return batches


def train(
    encoder: SentenceEncoder,
    sources: Sequence[Sequence[Pair]],
    options: EmbedConfig,
    seed: int,
    unfinished: Path,
    stop: StopRequest,
) -> tuple[int, float]:
    """Train the encoder in place; the number of steps, and the mean loss of the last ones.

    From the file `unfinished` an earlier training is resumed; on a CPU it ends with the same
    weights. Raises `Stopped` behind the step in which it was asked to stop, and `ValueError` where
    a loss is not a number.
    """
    pairs = [pair for source in sources for pair in source]
    texts = {text: n for n, text in enumerate(dict.fromkeys(t for p in pairs for t in p if t))}
    positives: dict[str, set[str]] = {}
    for pair in pairs:
        positives.setdefault(pair.anchor, set()).add(pair.positive)
    features = encoder.tokenize(list(texts))
    rng = np.random.default_rng([seed, 2])
    sizes = [len(source) for source in sources]
    batches = batches_of(sizes, options.batch_size, options.num_epochs, rng)
    network = encoder.network
    recipe = recipe_of(options, network.config.hidden_size)
    optimizer = build_optimizer(network, nn.Identity(), recipe)

    def embed(names: Sequence[str]) -> Tensor:
        return encoder.pooled(features, np.array([texts[name] for name in names]))

    with seeded(seed, encoder.device):
        file = Unfinished(unfinished, network, optimizer, "embed")
        state = file.load()
        first, losses = int(state.get("step", 0)), list(state.get("losses", []))
        num_done = sum(map(len, batches[:first]))
        network.train()
        with Progress("embed", sum(map(len, batches)), "pairs", num_done) as progress:
            for step, numbers in enumerate(batches[first:], start=first):
                batch = [pairs[number] for number in numbers]
                set_rates(optimizer, recipe, step, len(batches))
                negatives = [pair.negative for pair in batch if pair.negative]
                candidates = [embed([pair.positive for pair in batch])]
                candidates += [embed(negatives)] if negatives else []
                loss = contrastive_loss(
                    embed([pair.anchor for pair in batch]),
                    torch.cat(candidates),
                    torch.from_numpy(false_negatives(batch, positives)).to(encoder.device),
                    options.temperature,
                )
                torch.autograd.backward(loss)
                nn.utils.clip_grad_norm_(network.parameters(), recipe.max_gradient_norm)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                losses.append(loss.detach())
                del losses[:-_LOSSES]
                is_last = step + 1 == len(batches)
                if is_last or (step + 1) % _LOSSES == 0:
                    progress.update(0, f"loss {_mean(losses, step):.3f}")
                has_to_stop = bool(stop)
                file.save(step + 1, has_to_stop, lambda: {"losses": losses})
                if has_to_stop and not is_last:
                    raise Stopped(f"step {step + 1} of {len(batches)} is saved", stop.signal)
                progress.update(len(batch))
    return len(batches), _mean(losses, len(batches) - 1)


def _mean(losses: Sequence[Tensor], step: int) -> float:
    loss = float(torch.stack([*losses]).mean())
    if not math.isfinite(loss):
        raise UserError(
            f"the loss is {loss} at step {step}: lower embed.learning_rate, or raise "
            "embed.temperature"
        )
    return loss
