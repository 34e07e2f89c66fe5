"""What `electrify doctor --gpu` asks of the user's own card: does it compute what the CPU computes,
and does a CUDA graph repeat it?"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig
from electrify.system.outcome import UserError
from model.batch import Batch, Noise, SpecialTokens
from model.compiled import WARM_UPS, FastStep
from model.devices.device import describe, precision_of, resolve_device
from model.electra import ElectraPretrainer
from model.metrics import MetricsWindow
from model.objectives import make_pretrainer
from model.optim import make_optimizer
from model.pretrain import Update

_ROWS, _LENGTH, _VOCAB_SIZE = 4, 32, 200
_TINY: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "embedding_size": 32,
    "generator_hidden_fraction": 0.5,
    "sequence_length": _LENGTH,
    "max_position_embeddings": _LENGTH,
    "num_steps": 100,
    "warmup_steps": 2,
    "learning_rate": 1e-3,
}
_ARCHITECTURES: dict[str, dict[str, Any]] = {
    "electra": {},
    "modern": {"architecture": "modern", "optimizer": "muon", "layer_norm_eps": 1e-5},
}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_NUM_STEPS = WARM_UPS + 2  # so that two of a recording are replays
# rounding, in bf16 and in Muon's products in bf16, stays below it; a frozen number makes 1e-1
_LIMIT = 1e-2


@dataclass(frozen=True)
class Agreement:
    """The largest relative difference between two trainings."""

    what: str
    difference: float

    @property
    def agrees(self) -> bool:
        return self.difference <= _LIMIT  # False for nan

    def __str__(self) -> str:
        words = f"{self.what}: largest difference {self.difference:.1e}, limit {_LIMIT:.0e}"
        return words if self.agrees else f"PROBLEM: {words}"


def compare_gpu() -> Iterator[Agreement]:
    """CUDA against the CPU, and a replay against the step as written, for each architecture.

    `UserError` where torch sees no GPU.
    """
    if not torch.cuda.is_available():
        raise UserError("--gpu: torch sees no CUDA device here; call it where `doctor` lists one")
    device = resolve_device("cuda")
    for name, options in _ARCHITECTURES.items():
        model = _network(options | _NO_DROPOUT | {"precision": "fp32"})
        torch.set_float32_matmul_precision("highest")  # products in fp32, not in TF32
        cpu = _trained(model, torch.device("cpu"), 3)
        cuda = _trained(model, device, 3, cuda_graph="off")
        resolve_device("cuda")  # which allows TF32 again
        what = f"{describe(device)} against the CPU, {name}"
        yield Agreement(what, _difference(cuda, cpu))
        model = _network(options)
        precision = precision_of(model.config, device)
        written = _trained(model, device, _NUM_STEPS, cuda_graph="off")
        replayed = _trained(model, device, _NUM_STEPS, cuda_graph="on")
        what = f"a CUDA graph against the step as written, {name}, {precision}"
        yield Agreement(what, _difference(replayed, written))


def _network(options: dict[str, Any]) -> ElectraPretrainer:
    preset = SIZE_PRESETS["small"] | {"device": "cuda", "compile": "off"}
    config = PretrainConfig.model_validate(preset | _TINY | options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = make_pretrainer(config, _VOCAB_SIZE, SpecialTokens(0, 2, 3, 4), None)
        for parameter in model.parameters():
            if parameter.dim() == 1:  # a step of Adam beside a bias of zero would be all of it
                parameter.data += torch.normal(0.0, 0.3, parameter.shape)
    return model


def _trained(
    model: ElectraPretrainer, device: torch.device, num_steps: int, **options: object
) -> dict[str, Tensor]:
    """A copy of the network after so many steps: its weights, and the norms of all gradients."""
    model = copy.deepcopy(model).to(device)
    model.config = model.config.model_copy(update={"device": device.type, **options})
    optimizer, window = make_optimizer(model, model.config), MetricsWindow(["text"], device)
    step = FastStep(Update(model, optimizer, model.config, window, seed=5), device)
    norms = []
    for number in range(num_steps):
        _, norm = step([_batch(model.config, number).to(device)], number)
        norms.append(norm.cpu().clone())
    # the gradient of a key's bias is 0 but for rounding, which Adam makes a step of
    weights = {n: p.detach().cpu() for n, p in model.named_parameters() if "key.bias" not in n}
    return weights | {"gradients": torch.stack(norms)}


def _batch(config: PretrainConfig, seed: int) -> Batch:
    """Rows of random tokens."""
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, _VOCAB_SIZE, (_ROWS, _LENGTH), generator=rng)
    ids[:, 0], ids[:, -1] = 2, 3
    noise = Noise.draw(seed, _ROWS, _LENGTH, config.num_masked(_LENGTH))
    languages = torch.zeros(_ROWS, dtype=torch.int64)
    return Batch(ids, torch.zeros_like(ids), noise, languages)


def _difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest norm of a difference beside the norm of what it is a difference of."""
    pairs = ((one[name].double(), value.double()) for name, value in other.items())
    relative = [((a - b).norm() / b.norm().clamp(min=1e-3)) for a, b in pairs]
    return float(torch.stack(relative).max())
