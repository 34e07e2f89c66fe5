"""The parts of an update under torch.compile, and for which runs they are."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import nn

from electrify.config_pretrain import PretrainConfig
from model.metrics import AddSums, add_sums_of
from model.parallel import Ranks, bare
from model.train_step import Parts, loss_of, mask

Function = TypeVar("Function", bound=Callable[..., Any])
# shapes, stages and models that one process may compile a part for: a curriculum, a benchmark
_RECOMPILE_LIMIT = 64


def is_compiled(config: PretrainConfig, device: torch.device, ranks: Ranks) -> bool:
    """Whether a run's steps are compiled; "auto": on CUDA, but for weights in parts (FSDP2).

    On the CPU matrix products take nearly all of a step, and compiling gains nothing. XLA compiles
    whatever it runs by itself.
    """
    in_parts = ranks.num_ranks > 1 and config.parallel == "fsdp"
    if config.compile == "on" and device.type == "xla":
        raise ValueError(
            'pretrain.compile = "on" with device = "xla", which compiles by itself; set compile to '
            '"auto"'
        )
    if config.compile == "on" and in_parts:
        raise ValueError(
            'pretrain.compile = "on" with parallel = "fsdp": weights in parts run as written; set '
            'compile to "auto" or parallel to "ddp"'
        )
    if config.compile == "auto":
        return device.type == "cuda" and not in_parts
    return config.compile == "on"


def is_recorded(config: PretrainConfig, device: torch.device, ranks: Ranks) -> bool:
    """Whether a run's steps become CUDA graphs; "auto": on CUDA, in one process.

    Several processes exchange gradients and counts inside a step, which nobody has recorded yet.
    """
    possible = device.type == "cuda" and ranks.num_ranks == 1
    if config.cuda_graph == "on" and not possible:
        raise ValueError(
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
    """Take back what `compile_parts` did to the model itself."""
    bare(model)._compiled_call_impl = None
