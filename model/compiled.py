"""A run's steps as fast as its device and options allow: compiled, and recorded as one CUDA graph.

What a step computes is `model.pretrain.Update`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from model.devices.device import precision_of
from model.devices.processes import Ranks, bare
from model.log import MetricsWindow, add_sums_of
from model.networks.batch import Batch, Masked, Outputs, map_tensors
from model.networks.electra import ElectraPretrainer
from model.plan import Stage, stage_at

Result = tuple[list[Outputs], Tensor]  # of each forward pass; the norm of all gradients
WARM_UPS = 3  # steps of a form before it is recorded: real ones, so no weight has to go back


# shapes, stages and models that one process may compile a part for: a curriculum, a benchmark
_RECOMPILE_LIMIT = 64


def mask(network: ElectraPretrainer, batch: Batch) -> Masked:
    return network.mask(batch)


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


class FastStep(ABC):
    """The updates of one run; a call does one, as `update` is written or faster.

    Steps of one form, the same shapes and stage, share compiled code and a recording; the next form
    (a phase of the curriculum, the second of two stages) makes its own and drops these. What cannot
    be compiled or recorded runs without, and one line of the log says why; with "on" in place of
    "auto" that is a `UserError`.

    Outputs and norm of a recorded step lie where those of the next one will: read them before it.
    """

    def __init__(
        self, model: nn.Module, config: PretrainConfig, window: MetricsWindow, ranks: Ranks
    ) -> None:
        """`model` is the network, inside DDP where several processes train it; figures are counted
        in `window`."""
        self.model, self.config, self.window, self.ranks = model, config, window, ranks
        self.mask, self.add_sums = mask, add_sums_of  # parts that may be compiled
        self._device = next(model.parameters()).device
        self.is_compiled = should_compile(config, self._device)
        is_recorded = should_record(config, self._device, ranks)
        self._recorder = CudaRecorder(self._device) if is_recorded else None
        self._form: tuple[object, ...] = ()
        self._num_done = 0  # steps of this form
        self._inputs: list[Batch] = []  # what a recording reads
        self._replay: Callable[[], None] | None = None
        self._result: Result | None = None  # of the recording

    @abstractmethod
    def prepare(self, step: int) -> None:
        """What the host decides for each step."""

    @abstractmethod
    def passes(self, batches: Sequence[Batch], stage: Stage) -> list[Outputs]:
        """Forward and backward passes, which change gradients alone."""

    @abstractmethod
    def update(self, batches: Sequence[Batch], stage: Stage) -> Result:
        """All that the device does in a step."""

    @property
    def is_recorded(self) -> bool:
        return self._recorder is not None

    def __call__(self, batches: Sequence[Batch], step: int) -> Result:
        """The update that follows `step` finished ones, from batches on the device.

        `UserError` where the memory of the device is too small.
        """
        try:
            return self._call(batches, step)
        except torch.OutOfMemoryError as error:
            rows, length = batches[0].input_ids.shape
            raise UserError(self._advice(step, rows, length, _reason(error))) from None

    def _call(self, batches: Sequence[Batch], step: int) -> Result:
        stage = stage_at(self.config, step)
        shapes = ((batch.input_ids.shape, batch.mask_fraction) for batch in batches)
        form = (stage, *shapes)
        if form != self._form:
            self._begin(form, batches)
        if self._recorder is not None:
            batches = self._copied(batches)
        if self.is_compiled and self._num_done == 0:
            self._compile(batches, stage)
        work = partial(self.update, batches, stage)
        if self._recorder is not None and self._num_done == WARM_UPS:
            self._record(self._recorder, work)
        self.prepare(step)
        if self._replay is not None:
            self._replay()
        else:
            with self._warming():
                self._result = work()
        assert self._result is not None
        self.window.keep(self._result[0])
        self._num_done += 1
        return self._result

    def _advice(self, step: int, rows: int, length: int, reason: str) -> str:
        if rows == 1:
            return f"out of memory with one sequence of {length} tokens ({reason}): take less"
        fewer = next(number for number in range(rows // 2, 0, -1) if rows % number == 0)
        number = sum(end <= step for end in self.config.curriculum_ends)
        has_own = any(p.micro_batch_size for p in self.config.curriculum[number : number + 1])
        key = f"curriculum[{number}].micro_batch_size" if has_own else "micro_batch_size"
        return (
            f"out of memory with micro-batches of {rows} sequences of {length} tokens ({reason}): "
            f"set pretrain.{key} = {fewer}, which changes no gradient"
        )

    def how(self) -> str:
        """`bf16, compiled, a CUDA graph`: what has been chosen, but for what failed."""
        precision = precision_of(self.config, self._device)
        recorded = ", a CUDA graph" if self.is_recorded else ""
        return f"{precision}, {'compiled' if self.is_compiled else 'as written'}{recorded}"

    def uncompiled(self) -> AbstractContextManager[object]:
        """Around passes of other forms, such as validation's, that would not pay for compiling."""
        return torch.compiler.set_stance("force_eager") if self.is_compiled else nullcontext()

    def _begin(self, form: tuple[object, ...], batches: Sequence[Batch]) -> None:
        self._form, self._num_done, self._replay, self._result = form, 0, None, None
        if self._recorder is not None:
            copy = partial(torch.clone, memory_format=torch.contiguous_format)
            self._inputs = [map_tensors(batch, copy) for batch in batches]
        rows, length = batches[0].input_ids.shape
        log(f"steps of {len(batches)} x {rows} x {length} tokens: {self.how()}")

    def _copied(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        """The batches in the memory that a recording reads."""
        for batch, inputs in zip(batches, self._inputs, strict=True):
            for tensor, target in zip(batch.tensors(), inputs.tensors(), strict=True):
                target.copy_(tensor, non_blocking=True)
        return self._inputs

    def _warming(self) -> AbstractContextManager[object]:
        return nullcontext() if self._recorder is None else self._recorder.warming()

    def _compile(self, batches: Sequence[Batch], stage: Stage) -> None:
        """Compile what an update of this form calls, or fall back before anything has changed.

        All passes run once, and their figures are dropped. That changes gradients, which the next
        update drops, and the state of the random generator, which each step sets.
        """
        log("compiling the step, which may take minutes")
        try:
            if self.add_sums is add_sums_of:  # else they are compiled, for another form
                self.compile_parts()
            with self._warming():
                copy = MetricsWindow(self.window.languages, self._device)
                copy.count(self.passes(batches, stage), self.add_sums)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a compiler raises; what is not its own comes again
            self._continue_without("torch.compile", "compile", error)
            bare(self.model)._compiled_call_impl = None
            self.mask, self.add_sums, self.is_compiled = mask, add_sums_of, False

    def compile_parts(self, backend: str = "inductor") -> None:
        """The network and the other parts, without a graph break, again for each shape and stage.

        Code is made at the first call and in the first backward pass. With several processes the
        network inside DDP is compiled, since DDP's own forward is Python that cannot be.
        """
        import torch._dynamo

        limit = torch._dynamo.config.recompile_limit
        torch._dynamo.config.recompile_limit = max(limit, _RECOMPILE_LIMIT)
        options: dict[str, Any] = {"fullgraph": True, "dynamic": False, "backend": backend}
        bare(self.model).compile(**options)
        self.add_sums = torch.compile(add_sums_of, **options)
        if backend == "inductor":  # else Triton takes a minute to compile a sort of its own
            options["options"] = {"triton.persistent_reductions": False}
        self.mask = torch.compile(mask, **options)

    def _record(self, recorder: "CudaRecorder", work: Callable[[], Result]) -> None:
        try:
            self._replay, self._result = recorder.record(work)
        except Exception as error:  # of CUDA, of its libraries, of memory that there is not
            self._continue_without("a CUDA graph", "cuda_graph", error)
            self._recorder = None

    def _continue_without(self, what: str, option: str, error: Exception) -> None:
        reason = _reason(error)
        if getattr(self.config, option) == "on":
            raise UserError(f'{what} failed ({reason}); set pretrain.{option} to "auto"') from error
        warn(f"steps run without {what}, which failed: {reason}")


def _reason(error: BaseException) -> str:
    """In one line; of an error while another was handled, as at the end of a broken capture, that
    one: it is the cause."""
    error = error.__context__ or error
    words = " ".join(str(error).split())[:240]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


Recorded = TypeVar("Recorded")


class CudaRecorder:
    """Records CUDA graphs, on a stream of its own: the default one cannot be recorded.

    Random draws follow torch's generator, which each replay reads and advances: its seed and offset
    then are those of the draws (CUDAGeneratorImpl.h, "CUDA Graph-safe RNG states").
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @contextmanager
    def warming(self) -> Iterator[None]:
        """Do what is inside on the stream of the recording, a few times before it is recorded.

        What is made at first use, such as handles, plans and the nodes that gather gradients,
        belongs to the stream that it is first used on.
        """
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:  # where the work fails, too: its caller continues
            current.wait_stream(self._stream)

    def record(self, work: Callable[[], Recorded]) -> tuple[Callable[[], None], Recorded]:
        """Call `work` once without doing what it asks of the device; what then does all of that,
        and the result of `work`, whose tensors each replay fills.

        It is one graph of all kernels and copies, with memory of its own. Every number that the
        host computes in `work` stays as it was then. Raises what forbids the recording.
        """
        torch.cuda.empty_cache()
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._device)
        try:
            # thread_local: a thread that reads data may go on
            with torch.cuda.graph(graph, None, self._stream, capture_error_mode="thread_local"):
                result = work()
        except Exception:
            torch.cuda.set_stream(current)  # torch leaves the other one where a capture breaks off
            raise
        return graph.replay, result
