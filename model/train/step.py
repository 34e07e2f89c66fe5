"""One update: mask, generate, sample, discriminate, weigh, backward, update."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from model.batch import Batch, Counts, Masked, Outputs
from model.devices.device import autocast, seed_dropout
from model.electra import ElectraPretrainer
from model.objectives import run_objective
from model.schedule import Stage, learning_rate, stage_at
from model.train.optim import AdamW, clip, set_learning_rate
from model.train.processes import ALONE, Ranks, bare, synchronised


@dataclass(frozen=True)
class Step:
    number: int  # of finished updates before it
    seed: int
    ranks: Ranks = ALONE


def mask(model: ElectraPretrainer, batch: Batch) -> Masked:
    return model.mask(batch)


def loss_of(
    model: nn.Module, masked: Masked, counts: Counts, stage: Stage, earlier: Outputs | None
) -> tuple[Tensor, Outputs]:
    """A forward pass; `counts` are of the whole step, `earlier` of the generator's own pass.

    Returns its loss and its outputs, of which nothing has a gradient any more.
    """
    outputs: Outputs = model(run_objective, masked, stage, earlier)
    terms = {name: replace(of, total=of.total.detach()) for name, of in outputs.terms.items()}
    return outputs.loss(counts), replace(outputs, terms=terms)


@dataclass(frozen=True)
class Parts:
    """What the compiler can make faster of an update, as it is written here or compiled."""

    mask: Callable[[ElectraPretrainer, Batch], Masked] = mask
    loss_of: Callable[
        [nn.Module, Masked, Counts, Stage, Outputs | None], tuple[Tensor, Outputs]
    ] = loss_of


AS_WRITTEN = Parts()


def train_step(
    model: nn.Module,
    optimizers: Sequence[AdamW],
    batches: Sequence[Batch],
    config: PretrainConfig,
    step: Step,
    parts: Parts = AS_WRITTEN,
) -> tuple[list[Outputs], Tensor]:
    """One update from this process's micro-batches of a step.

    Every loss is a mean over the whole step, over micro-batches and processes, so neither their
    number nor uneven padding changes the gradient. Returns the outputs of each forward pass and the
    norm of all gradients before clipping. With decoupled updates the generator is updated first,
    and the discriminator then trained on the samples it made before (DeBERTaV3, section 3.1).
    """
    prepare(optimizers, config, step)
    stages = stages_of(config, step.number)
    return update(model, optimizers, batches, config, stages, step.ranks, parts)


def prepare(optimizers: Sequence[AdamW], config: PretrainConfig, step: Step) -> None:
    """What the host decides anew for each step: the draws of dropout and the learning rate."""
    seed_dropout(step.seed, step.number, 0, step.ranks.rank)
    for optimizer in optimizers:
        set_learning_rate(optimizer, learning_rate(step.number, config))


def stages_of(config: PretrainConfig, number: int) -> tuple[Stage, ...]:
    """What is trained in the update that follows `number` finished ones: one stage an optimiser."""
    if config.updates == "decoupled":
        return "generator", "discriminator"
    return (stage_at(config, number),)


def update(
    model: nn.Module,
    optimizers: Sequence[AdamW],
    batches: Sequence[Batch],
    config: PretrainConfig,
    stages: Sequence[Stage],
    ranks: Ranks,
    parts: Parts = AS_WRITTEN,
) -> tuple[list[Outputs], Tensor]:
    """The device's share of `train_step`.

    It reads tensors alone, waits for none of them, and does the same whatever they hold: so a
    recording of it can be replayed for later steps.
    """
    masked = [parts.mask(bare(model), batch) for batch in batches]
    counts = ranks.sum(total_counts(masked))
    outputs: list[Outputs] = []
    norms = []
    for optimizer, stage in zip(optimizers, stages, strict=True):
        for parameter in model.parameters():
            parameter.grad = None
        earlier: Sequence[Outputs | None] = outputs or [None] * len(masked)
        outputs = []
        for number, (batch, before) in enumerate(zip(masked, earlier, strict=True)):
            with synchronised(model, number == len(masked) - 1):
                with autocast(config, batch.tokens.device):
                    loss, output = parts.loss_of(model, batch, counts, stage, before)
                # processes average their gradients, and the loss is a sum over them
                torch.autograd.backward(loss * ranks.num_ranks)
            outputs.append(output if before is None else _joined(before, output))
        norm, divisors = clip(optimizer, config)
        optimizer.step(divisors)
        norms.append(norm)
    return outputs, torch.stack(norms).square().sum().sqrt()


def total_counts(masked: Sequence[Masked]) -> Counts:
    first, *others = (Counts.of(batch) for batch in masked)
    return sum(others, first)


def _joined(generator: Outputs, discriminator: Outputs) -> Outputs:
    return replace(
        discriminator,
        terms={**generator.terms, **discriminator.terms},
        generator_losses=generator.generator_losses,
        generator_hits=generator.generator_hits,
    )
