"""Networks, and a few steps of one, for the tests of CUDA and of compiled steps."""

import copy
from collections.abc import Callable

import pytest
import torch

from model.compiled import WARM_UPS
from model.log import MetricsWindow
from model.networks.electra import ElectraPretrainer
from model.optim import make_optimizer
from model.pretrain import Update
from tests.model.conftest import MODERN, OBJECTIVES, random_batch

ON_GPU = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
    pytest.mark.filterwarnings("default"),  # of torch's compiler, which differ by release
]
NUM_STEPS = WARM_UPS + 2
MUON = MODERN | {"optimizer": "muon", "global_attn_every_n_layers": 2}
NETWORKS: dict[str, dict[str, object]] = {
    **{name: {"objective": name} | needs for name, needs in OBJECTIVES.items()},
    "gdes": {"optimizer": "bias-corrected", "weight_sharing": "gdes"},
    "document": {"attention": "document"},
    "modern": MUON,
    "modern document": MUON | {"attention": "document"},
    "modern mlm": MUON | {"objective": "mlm"},
}


def make_step(model: ElectraPretrainer, **options: object) -> tuple[Update, MetricsWindow]:
    """The step of a network that lies on its device, "cuda" or that of the options; its figures."""
    device = torch.device(str(options.setdefault("device", "cuda")))
    model.config = model.config.model_copy(update=options)
    window = MetricsWindow(["ko"], device)
    optimizer = make_optimizer(model, model.config)
    return Update(model, optimizer, model.config, window, seed=5), window


class Run:
    """A few steps of a random network, its figures, and its weights at the end."""

    def __init__(
        self,
        model: ElectraPretrainer,
        num_steps: int,
        change: Callable[[Update], object] = lambda step: None,
        **options: object,
    ):
        place = torch.device(str(options["device"]))
        self.model = copy.deepcopy(model).to(place)
        self.step, window = make_step(self.model, **options)
        change(self.step)
        self.norms = []
        for number in range(num_steps):
            # from 128 tokens on a compiled step has a kernel for documents
            has_kernel = model.shape.is_modern and model.config.attention == "document"
            length = 136 if has_kernel else 32
            batch = random_batch(model, rows=8, length=length, seed=number).to(place)
            _, norm = self.step([batch], number)
            self.norms.append(norm.item())
        self.figures = window.read()

    def assert_near(self, other: "Run", tolerance: float) -> None:
        assert self.norms == pytest.approx(other.norms, rel=tolerance)
        for name, value in other.figures.items():
            if "loss" in name:
                assert self.figures[name] == pytest.approx(value, rel=tolerance, nan_ok=True), name
        theirs = dict(other.model.named_parameters())
        for name, weight in self.model.named_parameters():
            # the gradient of a key's bias is 0 but for rounding, which Adam makes a step of
            if not name.endswith("key.bias"):
                difference = (weight.detach().cpu() - theirs[name].detach().cpu()).norm()
                assert difference <= tolerance * (weight.detach().cpu().norm() + 5e-4), name
