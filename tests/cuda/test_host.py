"""What the host asks of a GPU: waits, recordings, memory; what it does where CUDA refuses.

Nothing here depends on what kernels compute. So on the null GPU, which only counts them, it is the
same (`test_null_gpu.py`).
"""

from collections.abc import Callable

import pytest
import torch

from benchmarks.training.finetune import choose_precision
from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig
from model.compiled import Result
from model.devices.device import precision_of, resolve_device
from model.networks.batch import SpecialTokens
from model.networks.electra import ElectraPretrainer
from model.networks.objectives import make_pretrainer
from model.pretrain import Update
from tests.cuda.conftest import MUON, NETWORKS, NUM_STEPS, ON_GPU, make_step
from tests.cuda.nullgpu.card import counts, is_null_gpu, reset_counts, waits
from tests.model.conftest import batch_from, random_batch, random_model

pytestmark = ON_GPU
only_null_gpu = pytest.mark.skipif(not is_null_gpu(), reason="a real GPU counts no calls")
BF16 = {"compile": "off", "precision": "bf16"}


@pytest.fixture(autouse=True)
def device() -> torch.device:
    return resolve_device("cuda")


def repeated(model: ElectraPretrainer, length: int = 32, **options: object) -> Update:
    """As many steps on one batch as it takes to record and to replay them."""
    step, _ = make_step(model, **options)
    batch = random_batch(model, rows=8, length=length).to(next(model.parameters()).device)
    for number in range(NUM_STEPS):
        step([batch], number)
    return step


FP16 = BF16 | {"precision": "fp16"}
WAITING = [(name, BF16) for name in NETWORKS]
WAITING += [(name, FP16) for name in ("electra", "gdes", "modern")]
QUICK = [("electra", BF16), ("modern document", BF16), ("electra", FP16)]


@pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(*of, marks=() if of in QUICK else pytest.mark.slow) for of in WAITING],
)
def test_the_host_waits_for_no_step(name: str, options: dict[str, object], device: torch.device):
    """In steady state a step is one launch, after copies of its inputs, and allocates nothing."""
    model = random_model(**NETWORKS[name]).to(device)
    step = repeated(model, **options)
    assert step.is_recorded
    batch = random_batch(model, rows=8, length=32, seed=99).to(device)
    if is_null_gpu():
        reset_counts()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step([batch], NUM_STEPS)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    if is_null_gpu():
        counted = counts()
        assert counted["graph launches"] == 1
        assert waits(counted) == counted["cudaMalloc"] == 0


FORBIDDEN: dict[str, Callable[[torch.Tensor], object]] = {
    "nothing": lambda norm: None,
    "item": lambda norm: norm.item(),
    "nonzero": lambda norm: (norm > 0).nonzero(),
    "copy from pageable memory": lambda norm: torch.ones(3).to(norm.device),
    "synchronize": lambda norm: torch.cuda.synchronize(),
    "another stream": lambda norm: torch.cuda.current_stream().wait_stream(torch.cuda.Stream()),
    "error": lambda norm: 1 / 0,
}


@only_null_gpu
@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_cuda_forbids_in_a_recording_is_found_and_training_continues(
    name: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
):
    real = Update.update

    def update(*arguments: object) -> Result:
        result: Result = real(*arguments)
        if torch.cuda.is_current_stream_capturing():
            FORBIDDEN[name](result[1])
        return result

    monkeypatch.setattr(Update, "update", update)
    step = repeated(random_model(hidden_dropout_prob=0.1).to(device), **BF16)
    assert step.is_recorded == (name == "nothing")


def test_a_step_of_base_fits_into_24_gb(device: torch.device):
    """64 sequences of 512 tokens, as PERFORMANCE.md predicts."""
    if torch.cuda.get_device_properties(device).total_memory < 20e9:
        pytest.skip("a card of 16 GB")
    config = PretrainConfig.model_validate(SIZE_PRESETS["base"] | {"device": "cuda"})
    torch.cuda.empty_cache()  # in used memory a null GPU, which draws nothing, draws again for ever
    with device:
        model = make_pretrainer(config, 30522, SpecialTokens(0, 2, 3, 4))
    step, _ = make_step(model, **BF16)
    batch = batch_from(config, torch.full((64, 512), 7)).to(device)
    torch.cuda.reset_peak_memory_stats()
    for number in range(2):
        step([batch], number)
    assert torch.cuda.max_memory_allocated() < 20e9


def test_precision_is_bf16_where_the_card_has_units_for_it(device: torch.device):
    has_units = torch.cuda.get_device_capability(device) >= (8, 0)
    precision = "bf16" if has_units else "fp32"
    assert precision_of(random_model(precision="auto").config, device) == precision
    assert choose_precision("auto", device) == precision


@only_null_gpu
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["auto", "fp16"])
@pytest.mark.parametrize("attention", ["sequence", "document"])
def test_the_compiler_makes_kernels_for_the_card(attention, precision, device):
    """Triton and ptxas compile a step for its capability."""
    options = MUON | {"precision": precision, "attention": attention}
    model = random_model(**options, num_hidden_layers=1).to(device)
    step = repeated(model, 136, compile="on", cuda_graph="on")
    assert step.is_compiled
    assert step.is_recorded
    kernels = [name for name in counts(kernels=True) if name.startswith("[graph] triton_")]
    assert kernels
    assert any("flex_attention" in name for name in kernels) == (attention == "document")
