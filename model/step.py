"""One update: mask, forward (generate, sample, discriminate), weigh, backward, clip, update.

`Update` is the step as it is written. `FastStep` is what a run calls: the same as fast as device
and options allow, compiled, and recorded as one CUDA graph.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from model.batch import Batch, Masked, Outputs, counts_of, map_tensors
from model.devices.device import autocast, precision_of, seed_dropout
from model.devices.processes import ALONE, Ranks, bare, synchronised
from model.electra import ElectraPretrainer
from model.metrics import AddSums, MetricsWindow, add_sums_of
from model.optim import AdamW, LossScale, clip, set_learning_rate
from model.plan import Stage, learning_rate, stage_at

Result = tuple[list[Outputs], Tensor]  # of each forward pass; the norm of all gradients


@dataclass(frozen=True)
class Step:
    number: int  # of finished updates before it
    seed: int


def trained_stages(config: PretrainConfig, number: int) -> tuple[Stage, ...]:
    """What is trained in the update that follows `number` finished ones: one stage an optimiser."""
    if config.updates == "decoupled":
        return "generator", "discriminator"
    return (stage_at(config, number),)


def mask(model: ElectraPretrainer, batch: Batch) -> Masked:
    return model.mask(batch)


@dataclass(frozen=True)
class Update:
    """The updates of a run as they are written. `mask` and `add_sums` may be compiled."""

    model: nn.Module
    optimizers: Sequence[AdamW]
    config: PretrainConfig
    ranks: Ranks = ALONE
    window: MetricsWindow | None = None  # in which figures are counted
    mask: Callable[[ElectraPretrainer, Batch], Masked] = mask
    add_sums: AddSums = add_sums_of

    def prepare(self, step: Step) -> None:
        """What the host decides anew for each step: draws of dropout and the learning rate."""
        seed_dropout(step.seed, step.number, self.ranks.rank)
        for optimizer in self.optimizers:
            set_learning_rate(optimizer, learning_rate(step.number, self.config))

    def __call__(self, batches: Sequence[Batch], stages: Sequence[Stage]) -> Result:
        """One update from this process's micro-batches of a step.

        It reads tensors alone, waits for none of them, and does the same whatever they hold: so a
        recording of it can be replayed for later steps.
        """
        norms = []
        outputs: list[Outputs] = []
        masked, counts = self.masked(batches)
        for optimizer, stage in zip(self.optimizers, stages, strict=True):
            outputs = self.backward(masked, counts, stage, outputs, optimizer.loss_scale)
            norm, divisors = clip(optimizer, self.config)
            if optimizer.loss_scale is not None:
                norm = optimizer.loss_scale.judge(norm)
            optimizer.step(divisors)
            norms.append(norm)
        if self.window is not None:
            self.window.count(outputs, self.add_sums)
        return outputs, torch.stack(norms).square().sum().sqrt()

    def masked(self, batches: Sequence[Batch]) -> tuple[list[Masked], Tensor]:
        """The masked batches, and what the losses are means over: all micro-batches and processes
        of the step, so neither their number nor uneven padding changes the gradient."""
        masked = [self.mask(bare(self.model), batch) for batch in batches]
        return masked, self.ranks.sum(sum(map(counts_of, masked[1:]), counts_of(masked[0])))

    def backward(
        self,
        masked: Sequence[Masked],
        counts: Tensor,
        stage: Stage,
        earlier: Sequence[Outputs],
        scale: LossScale | None,
    ) -> list[Outputs]:
        """Forward and backward passes of one stage, after which the model has its gradients alone.

        `earlier` are the outputs of the stage before, none in the first one: with decoupled updates
        the generator is updated first, and the discriminator then trained on its samples
        (DeBERTaV3, section 3.1). The loss, not its gradients in the end, is multiplied by `scale`.
        """
        for parameter in self.model.parameters():
            parameter.grad = None
        outputs = []
        for number, batch in enumerate(masked):
            output = earlier[number] if earlier else None
            with synchronised(self.model, number == len(masked) - 1):
                for part in self._parts(stage):
                    output = self._pass(batch, counts, part, output, scale)
            assert output is not None
            outputs.append(output)
        if scale is not None:
            gradients = [of.grad for of in self.model.parameters() if of.grad is not None]
            torch._foreach_div_(gradients, scale.scale)
        return outputs

    def _parts(self, stage: Stage) -> Sequence[Stage]:
        """A joint stage as two, one behind the other: no gradient flows from the discriminator to
        the generator, so its states need not be kept while the discriminator makes its own. They
        are a fifth to a quarter of the memory.

        Both are one pass where the generator learns from the discriminator, and where DDP exchanges
        gradients, which it does once a step.
        """
        config = self.config
        apart = config.has_generator and config.objective != "electra-adversarial"
        if stage == "joint" and apart and bare(self.model) is self.model:
            return "generator", "discriminator"
        return (stage,)

    def _pass(
        self,
        batch: Masked,
        counts: Tensor,
        stage: Stage,
        earlier: Outputs | None,
        scale: LossScale | None,
    ) -> Outputs:
        """Forward and backward, on the samples of an earlier pass if there is one."""
        with autocast(self.config, batch.tokens.device):
            output: Outputs = self.model(batch, stage, earlier.samples if earlier else None)
            loss = output.loss(counts)
        if scale is not None:
            loss = loss * scale.scale
        # processes average their gradients, and the loss is a sum over them
        torch.autograd.backward(loss * self.ranks.num_ranks)
        output = output.without_gradient()
        return replace(output, terms=earlier.terms | output.terms) if earlier else output


def should_compile(config: PretrainConfig, device: torch.device) -> bool:
    """Whether a run's steps are compiled; "auto": on CUDA.

    On the CPU it pays in long runs with bf16, where other operators take most of a step, and needs
    a C++ compiler. XLA compiles whatever it runs by itself.
    """
    return config.compile == "on" or (config.compile == "auto" and device.type == "cuda")


def should_record(config: PretrainConfig, device: torch.device, ranks: Ranks) -> bool:
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


# shapes, stages and models that one process may compile a part for: a curriculum, a benchmark
_RECOMPILE_LIMIT = 64


def compiled(update: Update, backend: str = "inductor") -> Update:
    """With the network and the other parts compiled, without a graph break, anew for each shape and
    stage.

    Compilation happens at the first call and in the first backward pass. With several processes the
    network inside DDP is compiled, since DDP's own forward is Python that cannot be.
    """
    import torch._dynamo

    limit = torch._dynamo.config.recompile_limit
    torch._dynamo.config.recompile_limit = max(limit, _RECOMPILE_LIMIT)
    options: dict[str, Any] = {"fullgraph": True, "dynamic": False, "backend": backend}
    bare(update.model).compile(**options)
    add_sums = torch.compile(add_sums_of, **options)
    if backend == "inductor":  # else Triton takes a minute to compile a sort of its own
        options["options"] = {"triton.persistent_reductions": False}
    return replace(update, mask=torch.compile(mask, **options), add_sums=add_sums)


WARM_UPS = 3  # steps of a form before it is recorded: real ones, so no weight has to go back


class FastStep:
    """The updates of one run; a call does one and counts its figures in `window`.

    Steps of one form, the same shapes and stages, share compiled code and a recording; the next
    form (a phase of the curriculum, the second of two stages) makes its own and drops these. What
    cannot be compiled or recorded runs without, and one line of the log says why; with "on" in
    place of "auto" that is a `UserError`.

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
    ) -> None:
        self._config, self._device, self._ranks = config, device, ranks
        self._as_written = self._update = Update(model, optimizers, config, ranks, window)
        self.is_compiled = should_compile(config, device)
        if self.is_compiled:
            self._update = compiled(self._as_written)
        self._window = window
        self._recorder = CudaRecorder(device) if should_record(config, device, ranks) else None
        self._failures: list[str] = []  # as the log has them
        self._num_splits = 1  # of each micro-batch, where memory ran out
        self._form: tuple[object, ...] = ()
        self._num_done = 0  # steps of this form
        self._inputs: list[Batch] = []  # what a recording reads
        self._replay: Callable[[], None] | None = None
        self._result: Result | None = None  # of the recording

    @property
    def is_recorded(self) -> bool:
        return self._recorder is not None

    def __call__(self, batches: Sequence[Batch], step: Step) -> Result:
        """An update from batches on the device, from smaller ones where memory runs out."""
        versions, num_rows = self._versions(), len(batches[0].input_ids)
        while True:
            try:
                size = max(1, num_rows // self._num_splits)
                return self._call([part for batch in batches for part in batch.split(size)], step)
            except torch.OutOfMemoryError as error:
                self._split(num_rows, self._versions() == versions, error)

    def _versions(self) -> list[int]:
        """Numbers that change where weights do."""
        return [parameter._version for parameter in self._update.model.parameters()]

    def _split(self, num_rows: int, is_unchanged: bool, error: torch.OutOfMemoryError) -> None:
        """Halve the passes; `UserError` where the step cannot be repeated."""
        rows = num_rows // self._num_splits
        if not is_unchanged or rows % 2 or self._ranks.num_ranks > 1:
            raise UserError(
                f"out of memory with passes of {rows} sequences: set pretrain.micro_batch_size to "
                f"less, a divisor of {num_rows} ({_reason(error)})"
            ) from None
        self._num_splits *= 2
        self._form, self._inputs, self._replay, self._result = (), [], None, None
        for parameter in self._update.model.parameters():
            parameter.grad = None
        torch.cuda.empty_cache()
        warn(
            f"out of memory with passes of {rows} sequences: they have {rows // 2} from now on, "
            f"which changes no gradient. Set pretrain.micro_batch_size = {rows // 2} to start so"
        )

    def _call(self, batches: Sequence[Batch], step: Step) -> Result:
        stages = trained_stages(self._config, step.number)
        form = (
            stages,
            *((batch.input_ids.shape, batch.packed, batch.mask_fraction) for batch in batches),
        )
        if form != self._form:
            self._begin(form, batches)
        if self._recorder is not None:
            batches = self._copied(batches)
        if self.is_compiled and self._num_done == 0:
            self._compile(batches, stages)
        work = partial(self._update, batches, stages)
        if self._recorder is not None and self._num_done == WARM_UPS:
            self._record(self._recorder, work)
        self._update.prepare(step)
        if self._replay is not None:
            self._replay()
        else:
            with self._warming():
                self._result = work()
        assert self._result is not None
        self._window.keep(self._result[0])
        self._num_done += 1
        return self._result

    def how(self) -> str:
        """`bf16, compiled, a CUDA graph`: what has been chosen so far, and what failed."""
        chosen = [
            precision_of(self._config, self._device),
            "compiled" if self.is_compiled else "as written",
            "a CUDA graph" if self.is_recorded else "",
            *self._failures,
        ]
        return ", ".join(filter(None, chosen))

    def uncompiled(self) -> AbstractContextManager[object]:
        """Around passes of other forms, such as validation's, that would not pay for compiling."""
        return torch.compiler.set_stance("force_eager") if self.is_compiled else nullcontext()

    def _begin(self, form: tuple[object, ...], batches: Sequence[Batch]) -> None:
        self._form, self._num_done, self._replay, self._result = form, 0, None, None
        if self._recorder is not None:
            self._inputs = [map_tensors(batch, _own) for batch in batches]
        rows, length = batches[0].input_ids.shape
        log(f"steps of {len(batches)} x {rows} x {length} tokens: {self.how()}")

    def _copied(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        """The batches in the memory that a recording reads."""
        for batch, into in zip(batches, self._inputs, strict=True):
            for tensor, place in zip(batch.tensors(), into.tensors(), strict=True):
                place.copy_(tensor, non_blocking=True)
        return self._inputs

    def _warming(self) -> AbstractContextManager[object]:
        return nullcontext() if self._recorder is None else self._recorder.warming()

    def _compile(self, batches: Sequence[Batch], stages: Sequence[Stage]) -> None:
        """Compile what an update of this form calls, or fall back before anything has changed.

        It runs all passes once. That changes gradients, which the next update drops, and the state
        of the random generator, which each step sets.
        """
        log("compiling the step, which may take minutes")
        try:
            with self._warming():
                outputs: list[Outputs] = []
                masked, counts = self._update.masked(batches)
                for optimizer, stage in zip(self._update.optimizers, stages, strict=True):
                    scale = optimizer.loss_scale
                    outputs = self._update.backward(masked, counts, stage, outputs, scale)
                window = MetricsWindow(self._window.languages, self._device)
                window.count(outputs, self._update.add_sums)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a compiler raises; what is not its own comes again
            self._go_on_without("torch.compile", "compile", error)
            bare(self._update.model)._compiled_call_impl = None
            self._update, self.is_compiled = self._as_written, False

    def _record(self, recorder: "CudaRecorder", work: Callable[[], Result]) -> None:
        try:
            self._replay, self._result = recorder.record(work)
        except Exception as error:  # of CUDA, of its libraries, of memory that there is not
            self._go_on_without("a CUDA graph", "cuda_graph", error)
            self._recorder = None

    def _go_on_without(self, what: str, option: str, error: Exception) -> None:
        reason = _reason(error)
        if getattr(self._config, option) == "on":
            raise UserError(f'{what} failed ({reason}); set pretrain.{option} to "auto"') from error
        warn(f"steps run without {what}, which failed: {reason}")
        self._failures.append(f"without {what}, which failed: {reason}")


def _own(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _reason(error: BaseException) -> str:
    """In one line; of an error while another was handled, as at the end of a broken capture, that
    one: it is the cause."""
    error = error.__context__ or error
    words = " ".join(str(error).split())[:240]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


Recorded = TypeVar("Recorded")
# graphs whose recording broke off: the allocator may still ask them what is theirs
_BROKEN: list[torch.cuda.CUDAGraph] = []


class CudaRecorder:
    """Records CUDA graphs, on a stream of its own: the default one cannot be recorded.

    Random draws follow torch's generator, which each replay reads and advances: its seed and offset
    then are those of the draws (CUDAGeneratorImpl.h, "CUDA Graph-safe RNG states").
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._wait: str | None = None  # where the last warm-up waited for the device

    @contextmanager
    def warming(self) -> Iterator[None]:
        """Do what is inside on the stream of the recording, a few times before it is recorded.

        What is made at first use, such as handles, plans and the nodes that gather gradients,
        belongs to the stream that it is first used on. It is noted where the host waits.
        """
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                with torch.cuda.stream(self._stream):
                    yield
            finally:  # where the work fails, too: its caller continues
                torch.cuda.set_sync_debug_mode(before)
                current.wait_stream(self._stream)
        # CUDAFunctions.cpp: "called a synchronizing CUDA operation"
        waits = [str(of.message) for of in caught if "called a synchronizing" in str(of.message)]
        self._wait = waits[0].splitlines()[0] if waits else None

    def record(self, work: Callable[[], Recorded]) -> tuple[Callable[[], None], Recorded]:
        """Call `work` once without doing what it asks of the device; what then does all of that,
        and the result of `work`, whose tensors each replay fills.

        It is one graph of all kernels and copies, with memory of its own. Every number that the
        host computes in `work` stays as it was then. Raises what forbids the recording, and nothing
        is done then.
        """
        if self._wait is not None:  # tried, it would break off and leave more to repair
            raise RuntimeError(f"the host waits for the device: {self._wait}")
        torch.cuda.empty_cache()
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        current = torch.cuda.current_stream(self._device)
        try:
            # thread_local: a thread that reads data may go on
            with torch.cuda.graph(graph, pool, self._stream, capture_error_mode="thread_local"):
                result = work()
        except Exception:
            torch.cuda.set_stream(current)
            self._end_broken(graph, pool)
            raise
        return graph.replay, result

    def _end_broken(self, graph: torch.cuda.CUDAGraph, pool: Any) -> None:
        """What torch leaves undone where a capture cannot be ended (CUDAGraph.cpp, capture_end)."""
        _BROKEN.append(graph)
        index = self._device.index
        index = torch.cuda.current_device() if index is None else index
        with suppress(RuntimeError):  # it knows already
            torch._C._cuda_endAllocateToPool(index, pool)
        graph.reset()  # else its pool keeps what it took, and no later pass has memory
        generator = torch.cuda.default_generators[index]
        generator.graphsafe_set_state(generator.clone_state())
