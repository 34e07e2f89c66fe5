"""One update: mask, generate, sample, discriminate, weigh, backward, update."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from electrify.config_pretrain import PretrainConfig
from model.batch import Batch, Counts, Masked, Outputs
from model.device import autocast, seed_dropout
from model.optim import AdamW, set_learning_rate
from model.parallel import ALONE, Ranks, bare, synchronised, whole
from model.schedule import Stage, learning_rate, stage_at


@dataclass(frozen=True)
class Step:
    """Where an update stands in a run."""

    number: int  # of finished updates before it
    seed: int
    ranks: Ranks = ALONE


def train_step(
    model: nn.Module,
    optimizers: Sequence[AdamW],
    batches: Sequence[Batch],
    config: PretrainConfig,
    step: Step,
) -> tuple[list[Outputs], Tensor]:
    """One update from this process's micro-batches of a step.

    Every loss is a mean over the whole step, over micro-batches and processes, so neither their
    number nor uneven padding changes the gradient. Returns the outputs of each forward pass and the
    norm of all gradients before clipping. With decoupled updates the generator is updated first,
    and the discriminator then trained on the samples it made before (DeBERTaV3, section 3.1).
    """
    masked = [bare(model).mask(batch) for batch in batches]
    counts = step.ranks.sum(total_counts(masked))
    stages: list[Stage] = [stage_at(config, step.number)]
    if config.updates == "decoupled":
        stages = ["generator", "discriminator"]
    outputs: list[Outputs] = []
    norms = []
    for optimizer, stage in zip(optimizers, stages, strict=True):
        for parameter in model.parameters():
            parameter.grad = None
        outputs = _forward_backward(model, masked, counts, config, step, stage, outputs)
        # over both networks together, as the original
        norm = torch.nn.utils.clip_grad_norm_(optimizer.parameters(), config.max_gradient_norm)
        norms.append(whole(norm))
        set_learning_rate(optimizer, learning_rate(step.number, config))
        optimizer.step()
    return outputs, torch.stack(norms).square().sum().sqrt()


def _forward_backward(
    model: nn.Module,
    masked: Sequence[Masked],
    counts: Counts,
    config: PretrainConfig,
    step: Step,
    stage: Stage,
    before: Sequence[Outputs],
) -> list[Outputs]:
    """Gradients of all micro-batches; `before` are the outputs of the generator's own pass."""
    outputs = []
    for number, batch in enumerate(masked):
        earlier = before[number] if before else None
        draw = number + len(masked) * (earlier is not None)
        seed_dropout(step.seed, step.number, draw, step.ranks.rank)
        with synchronised(model, number == len(masked) - 1):
            with autocast(config, batch.tokens.device):
                output: Outputs = model(batch, stage, earlier)
            # processes average their gradients, and the loss is a sum over them
            torch.autograd.backward(output.loss(counts) * step.ranks.num_ranks)
        outputs.append(output if earlier is None else _joined(earlier, output))
    return outputs


def total_counts(masked: Sequence[Masked]) -> Counts:
    """The counts of all micro-batches together."""
    first, *others = (Counts.of(batch) for batch in masked)
    return sum(others, first)


def _joined(generator: Outputs, discriminator: Outputs) -> Outputs:
    """The outputs of two passes over one batch as those of one."""
    return replace(
        discriminator,
        terms={**generator.terms, **discriminator.terms},
        generator_losses=generator.generator_losses,
        generator_hits=generator.generator_hits,
    )
