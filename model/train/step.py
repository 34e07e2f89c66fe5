"""One update: mask, generate, sample, discriminate, weigh, backward, update.

`train_step` is the update as it is written. `FastStep` is what a run calls: the same as fast as
device and options allow, compiled, and recorded as one CUDA graph.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from model.batch import Batch, Counts, Masked, Outputs, map_tensors
from model.devices.cuda_graph import CudaRecorder
from model.devices.device import autocast, precision_of, seed_dropout
from model.electra import ElectraPretrainer
from model.objectives import run_objective
from model.schedule import Stage, learning_rate, stage_at
from model.train.optim import AdamW, clip, set_learning_rate
from model.train.processes import ALONE, Ranks, bare, synchronised
from model.watch.metrics import AddSums, MetricsWindow, add_sums_of


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
        outputs = take_gradients(model, masked, counts, stage, outputs, config, ranks, parts)
        norm, divisors = clip(optimizer, config)
        optimizer.step(divisors)
        norms.append(norm)
    return outputs, torch.stack(norms).square().sum().sqrt()


def take_gradients(
    model: nn.Module,
    masked: Sequence[Masked],
    counts: Counts,
    stage: Stage,
    earlier: Sequence[Outputs],
    config: PretrainConfig,
    ranks: Ranks,
    parts: Parts,
) -> list[Outputs]:
    """Forward and backward passes of one stage, after which the model has its gradients alone.

    `earlier` are the outputs of the stage before, none in the first one.
    """
    for parameter in model.parameters():
        parameter.grad = None
    outputs = []
    for number, batch in enumerate(masked):
        before = earlier[number] if earlier else None
        with synchronised(model, number == len(masked) - 1):
            with autocast(config, batch.tokens.device):
                loss, output = parts.loss_of(model, batch, counts, stage, before)
            # processes average their gradients, and the loss is a sum over them
            torch.autograd.backward(loss * ranks.num_ranks)
        outputs.append(output if before is None else _joined(before, output))
    return outputs


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


Function = TypeVar("Function", bound=Callable[..., Any])
# shapes, stages and models that one process may compile a part for: a curriculum, a benchmark
_RECOMPILE_LIMIT = 64


def is_compiled(config: PretrainConfig, device: torch.device) -> bool:
    """Whether a run's steps are compiled; "auto": on CUDA.

    On the CPU matrix products take nearly all of a step, and compiling gains nothing. XLA compiles
    whatever it runs by itself.
    """
    if config.compile == "on" and device.type == "xla":
        raise UserError(
            'pretrain.compile = "on" with device = "xla", which compiles by itself; set compile to '
            '"auto"'
        )
    if config.compile == "auto":
        return device.type == "cuda"
    return config.compile == "on"


def is_recorded(config: PretrainConfig, device: torch.device, ranks: Ranks) -> bool:
    """Whether a run's steps become CUDA graphs; "auto": on CUDA, in one process.

    Several processes exchange gradients and counts inside a step, which nobody has recorded yet.
    """
    possible = device.type == "cuda" and ranks.num_ranks == 1
    if config.cuda_graph == "on" and not possible:
        raise UserError(
            f'pretrain.cuda_graph = "on" with {ranks.num_ranks} process(es) on {device.type}: it '
            'needs CUDA and one process; set it to "auto"'
        )
    return config.cuda_graph != "off" and possible


def compile_parts(
    model: nn.Module, ranks: Ranks, backend: str = "inductor"
) -> tuple[Parts, AddSums]:
    """All parts without a graph break, anew for each shape and stage; and the sums of figures.

    Compilation happens at the first call and in the first backward pass. With several processes the
    network inside DDP is compiled, since DDP's own forward is Python that cannot be; torch cuts it
    where DDP's buckets end, so that gradients are exchanged during the backward pass. The optimiser
    needs no compiler: it is one pass over everything.
    """
    import torch._dynamo

    limit = torch._dynamo.config.recompile_limit
    torch._dynamo.config.recompile_limit = max(limit, _RECOMPILE_LIMIT)

    def compiled(function: Function) -> Function:
        made = torch.compile(function, fullgraph=True, dynamic=False, backend=backend)
        return cast(Function, made)

    if ranks.num_ranks > 1:
        bare(model).compile(fullgraph=True, dynamic=False, backend=backend)
        return Parts(compiled(mask), loss_of), compiled(add_sums_of)
    return Parts(compiled(mask), compiled(loss_of)), compiled(add_sums_of)


def undo_compilation(model: nn.Module) -> None:
    bare(model)._compiled_call_impl = None


WARM_UPS = 3  # steps of a form before it is recorded: real ones, so no weight has to go back
_MOST_LETTERS = 240  # of an error's message in the log
Result = tuple[list[Outputs], Tensor]
Made = TypeVar("Made")
Form = tuple[object, ...]


class FastStep:
    """The updates of one run; a call does one and counts its figures in `window`.

    Steps of one form, the same shapes and stages, share compiled code and a recording; the next
    form (a phase of the curriculum, the second of two stages) makes its own and drops these. What
    cannot be compiled or recorded runs without, from the same state, and one line of the log says
    why; with "on" in place of "auto" that is a `ValueError`.

    Outputs and norm of a recorded step lie where those of the next one will: read them before it.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizers: Sequence[AdamW],
        config: PretrainConfig,
        device: torch.device,
        window: MetricsWindow,
        ranks: Ranks = ALONE,
        recorder: CudaRecorder | None = None,
    ) -> None:
        """`recorder` in place of the one that config and device ask for."""
        self._model, self._optimizers, self._config = model, optimizers, config
        self._device, self._window, self._ranks = device, window, ranks
        self._parts: Parts = AS_WRITTEN
        self._add_sums: AddSums = add_sums_of
        self.is_compiled = is_compiled(config, device)
        if self.is_compiled:
            self._parts, self._add_sums = compile_parts(model, ranks)
        self._recorder = recorder
        if recorder is None and is_recorded(config, device, ranks):
            self._recorder = CudaRecorder(device)
        self._failures: list[str] = []  # as the log has them
        self._form: Form = ()
        self._num_done = 0  # steps of this form
        self._inputs: list[Batch] = []  # what a recording reads
        self._replay: Callable[[], None] | None = None
        self._result: Result | None = None  # of the recording

    @property
    def is_recorded(self) -> bool:
        return self._recorder is not None

    @property
    def recorded_bytes(self) -> int:
        return self._recorder.num_bytes if self._recorder is not None else 0

    def __call__(self, batches: Sequence[Batch], step: Step) -> Result:
        """`train_step`, on batches that lie on the device."""
        stages = stages_of(self._config, step.number)
        form: Form = stages, *((batch.input_ids.shape, batch.packed) for batch in batches)
        if form != self._form:
            self._begin(form, batches)
        if self._recorder is not None:
            _copy(batches, self._inputs)
            batches = self._inputs
        if self.is_compiled and self._num_done == 0:
            self._compile(batches, stages)
        if self._recorder is not None and self._num_done == WARM_UPS:
            self._record(self._recorder, batches, stages)
        prepare(self._optimizers, self._config, step)
        if self._replay is not None:
            assert self._result is not None
            self._replay()
            result = self._result
        else:
            result = self._warm(partial(self._update, batches, stages))
        self._window.keep(result[0])
        self._num_done += 1
        return result

    def how(self) -> str:
        """`bf16, compiled, a CUDA graph`: what has been chosen so far, and what failed."""
        told = [
            precision_of(self._config, self._device),
            "compiled" if self.is_compiled else "as written",
            "a CUDA graph" if self.is_recorded else "",
            *self._failures,
        ]
        return ", ".join(filter(None, told))

    def uncompiled(self) -> AbstractContextManager[object]:
        """Around passes of other forms, such as validation's, that would not pay for compiling."""
        return torch.compiler.set_stance("force_eager") if self.is_compiled else nullcontext()

    def _begin(self, form: Form, batches: Sequence[Batch]) -> None:
        self._form, self._num_done, self._replay, self._result = form, 0, None, None
        if self._recorder is not None:
            self._inputs = [map_tensors(batch, _own) for batch in batches]
        rows, length = batches[0].input_ids.shape
        log(f"steps of {len(batches)} x {rows} x {length} tokens: {self.how()}")

    def _update(self, batches: Sequence[Batch], stages: Sequence[Stage]) -> Result:
        outputs, norm = update(
            self._model, self._optimizers, batches, self._config, stages, self._ranks, self._parts
        )
        self._window.count(outputs, self._add_sums)
        return outputs, norm

    def _warm(self, work: Callable[[], Made]) -> Made:
        return work() if self._recorder is None else self._recorder.warm(work)

    def _compile(self, batches: Sequence[Batch], stages: Sequence[Stage]) -> None:
        """Compile what an update of this form calls, or fall back before anything has changed."""
        try:
            self._warm(partial(self._rehearse, batches, stages))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a compiler raises; what is not its own comes again
            reason = _reason(error)
            if self._config.compile == "on":
                raise UserError(
                    f'torch.compile failed ({reason}); set pretrain.compile to "auto"'
                ) from error
            self._fall_back(f"without torch.compile, which failed: {reason}")
            undo_compilation(self._model)
            self._parts, self._add_sums, self.is_compiled = AS_WRITTEN, add_sums_of, False

    def _rehearse(self, batches: Sequence[Batch], stages: Sequence[Stage]) -> None:
        """All passes of an update. It changes gradients, which the next update drops, and the
        state of the random generator, which each step sets."""
        model, parts, ranks = self._model, self._parts, self._ranks
        masked = [parts.mask(bare(model), batch) for batch in batches]
        counts = ranks.sum(total_counts(masked))
        outputs: list[Outputs] = []
        for stage in stages:
            outputs = take_gradients(
                model, masked, counts, stage, outputs, self._config, ranks, parts
            )
        MetricsWindow(self._window.languages, self._device).count(outputs, self._add_sums)

    def _fall_back(self, why: str) -> None:
        warn(f"steps run {why}")
        self._failures.append(why)

    def _record(
        self, recorder: CudaRecorder, batches: Sequence[Batch], stages: Sequence[Stage]
    ) -> None:
        def work() -> None:
            self._result = self._update(batches, stages)

        try:
            self._replay = recorder.record(work)
        except Exception as error:  # of CUDA, of its libraries, of memory that there is not
            reason = _reason(error)
            if self._config.cuda_graph == "on":
                raise UserError(
                    f"a step cannot become a CUDA graph ({reason}); set pretrain.cuda_graph to "
                    '"auto"'
                ) from error
            self._fall_back(f"without a CUDA graph, which failed: {reason}")
            self._recorder = self._result = None


def _copy(source: Sequence[Batch], target: Sequence[Batch]) -> None:
    for one, other in zip(source, target, strict=True):
        for of, into in zip(one.tensors(), other.tensors(), strict=True):
            into.copy_(of, non_blocking=True)


def _own(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _reason(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:_MOST_LETTERS]}" if words else type(error).__name__
