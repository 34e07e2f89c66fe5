"""A run on XLA is the run on the CPU, on any number of devices, and compiles a step once.

These tests run XLA's own CPU backend in processes of their own: `make test-tpu`.
"""

import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from electrify.config.run import RunConfig
from model.checkpoint import checkpoints
from model.flops import flops_per_token
from model.pretrain import Trainer
from tests.model.conftest import NO_DROPOUT, VARIANTS, VOCAB_SIZE, make_config, write_tiny_shards
from tests.model.trained import Trained
from tests.model.xla_program import Run

pytestmark = [
    pytest.mark.xla,
    pytest.mark.skipif(
        find_spec("torch_xla") is None, reason="torch_xla is not installed here: make test-tpu"
    ),
]
ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parents[1].joinpath("xla_program.py")
NUM_STEPS, SAVED, KILLED_AT = 50, 25, 9


def one_layer(num_steps: int, log: int, valid: int, save: int, **others: object) -> dict[str, Any]:
    """Options of a run that logs, validates and saves every so many steps."""
    every = {"log_every_steps": log, "valid_every_steps": valid, "checkpoint_every_steps": save}
    form = {"num_hidden_layers": 1, "batch_size": 8, "warmup_steps": 2, "num_steps": num_steps}
    return form | every | others


# at four times the rate a difference of rounding becomes one of samples
PLAIN = one_layer(NUM_STEPS, 5, 20, SAVED, learning_rate=5e-4, num_valid_batches=3) | NO_DROPOUT
WITH_DROPOUT = one_layer(12, 3, 6, 4, keep_checkpoints=3)
SHORT = one_layer(6, 2, 3, 6, num_valid_batches=2) | NO_DROPOUT
# each has operators that no other one has
CASES: dict[str, dict[str, object]] = {
    "adversarial": {"objective": "electra-adversarial", "attention": "document"},
    "all-tokens-mlm": {"objective": "all-tokens-mlm", "optimizer": "bias-corrected"},
    "gdes": {"weight_sharing": "gdes"},
    "two-stage": VARIANTS["electra-two-stage"],
    "electra-15": {"objective": "electra-15"},
    "replace-mlm": {"objective": "replace-mlm"},
}
# a validation whose last batch is not full, two passes a step
PADDED = SHORT | {"micro_batch_size": 4, "num_valid_batches": 30, "batch_size": 12}


def launch(
    runs: list[Run], folder: Path, devices: int = 1, flags: str = ""
) -> subprocess.CompletedProcess[str]:
    """PROGRAM with so many devices; what it found is in `task.pkl.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "task.pkl"
    path.write_bytes(pickle.dumps(runs))
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PJRT_DEVICE": "CPU",
        "CPU_NUM_DEVICES": str(devices),
        "OMP_NUM_THREADS": "1",
        # quickly compiled, not quickly run
        "XLA_FLAGS": "--xla_backend_optimization_level=0 "
        f"--xla_llvm_disable_expensive_passes=true {flags}",
    }
    command = [sys.executable, str(PROGRAM), str(path)]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 900}
    return subprocess.run(command, env=environment, cwd=ROOT, **options)


def found_by(runs: list[Run], folder: Path, devices: int = 1, flags: str = "") -> Any:
    done = launch(runs, folder, devices, flags)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "task.pkl.json").read_text())


def on(device: str, folder: Path, **pretrain: object) -> RunConfig:
    return make_config(folder, **(pretrain | {"device": device}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with shards."""
    made = tmp_path_factory.mktemp("xla")
    write_tiny_shards(made / "shards")
    return made


@pytest.fixture(scope="module")
def on_cpu(folder: Path) -> dict[str, Trained]:
    """Runs by this process, whose torch is the same."""
    configs = {"plain": on("cpu", folder, **PLAIN)}
    configs |= {name: on("cpu", folder, **(SHORT | options)) for name, options in CASES.items()}
    configs["padded"] = on("cpu", folder, **PADDED)
    trained = {}
    for name, config in configs.items():
        target = folder / "cpu" / name
        target.mkdir(parents=True)
        Trainer(config).run(target)
        trained[name] = Trained.read(target)
    return trained


@pytest.fixture(scope="module")
def one_device(folder: Path, on_cpu: dict[str, Trained]) -> dict[str, Any]:
    """What one process of one device found, a run a name; the last is killed with it."""
    from_cpu = folder / "cpu" / "plain" / f"checkpoint-{SAVED}"
    runs = {
        "plain": Run(on("xla", folder, **PLAIN), folder / "one" / "plain"),
        "from cpu": Run(on("xla", folder, **PLAIN), folder / "one" / "from cpu", from_cpu),
        "dropout": Run(on("xla", folder, **WITH_DROPOUT), folder / "one" / "dropout"),
    }
    return dict(zip(runs, found_by([*runs.values()], folder / "one")["runs"], strict=True))


@pytest.fixture(scope="module")
def cases(folder: Path) -> dict[str, Any]:
    """What one process of two devices found of other objectives."""
    runs = {
        name: Run(on("xla", folder, **(SHORT | options)), folder / "cases" / name)
        for name, options in CASES.items()
    }
    found = found_by([*runs.values()], folder / "cases", 2, dumped_to(folder / "hlo"))
    return dict(zip(runs, found["runs"], strict=True))


def dumped_to(folder: Path) -> str:
    """The flags that have compiled programs written."""
    return f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd.*"


def programs(folder: Path) -> list[str]:
    """Those written, as one of several devices runs them."""
    return [path.read_text() for path in folder.glob("*.after_spmd-partitioning.*.txt")]


@pytest.fixture(scope="module")
def four_devices(folder: Path, one_device: dict[str, Any]) -> Any:
    """What one process of four devices found."""
    plain, padded = (on("xla", folder, **options) for options in (PLAIN, PADDED))
    runs = [Run(plain, folder / "four" / "plain"), Run(padded, folder / "four" / "padded")]
    return found_by(runs, folder / "four", devices=4)


# --- a run on XLA is the run on the CPU -----------------------------------------------------------


def test_the_curve_is_that_of_the_cpu(folder, one_device, on_cpu):
    Trained.read(folder / "one" / "plain").check_equal(on_cpu["plain"])


@pytest.mark.parametrize("name", CASES)
def test_other_objectives_are_those_of_the_cpu(folder, cases, on_cpu, name: str):
    Trained.read(folder / "cases" / name).check_equal(on_cpu[name])


# --- one compilation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    # one that goes on has the programs of the one before
    [("plain", {"before step 0": 1, "before validation 20": 1}), ("from cpu", {})],
)
def test_a_step_and_a_validation_are_compiled_once(one_device, name: str, expected: dict[str, int]):
    """And nothing else, where figures are read or a checkpoint is written."""
    compiled = {
        when: after - before
        for (when, before, _), (_, after, _) in pairwise(one_device[name]["notes"])
        if after != before
    }
    assert compiled == expected


def test_nothing_is_read_but_where_figures_are(one_device):
    """A number that the host reads stops it until the device has come there."""
    notes = one_device["plain"]["notes"]
    logged = {f"before step {step - 1}" for step in range(5, NUM_STEPS + 1, 5)}
    saved = {f"before step {step - 1}" for step in range(SAVED, NUM_STEPS + 1, SAVED)}
    for (when, _, before), (_, _, after) in pairwise(notes):
        assert after == before or when in logged | saved, when
    assert notes[-1][2] > 0  # else this would see nothing


def test_no_operator_is_computed_on_the_host(one_device, cases, four_devices):
    for run in (*one_device.values(), *cases.values(), *four_devices["runs"]):
        assert run["fallbacks"] == []


def test_a_tpu_has_the_operators_on_64_bit_numbers(folder, cases):
    """It computes them by pairs of 32-bit ones, in operators on each element by itself; those that
    it cannot (windows, scatters, exchanges and powers of fp64 among them) fail when they are
    compiled, there alone. This reads the programs of all objectives, cut for two devices."""
    kinds: dict[str, set[str]] = {"f64": set(), "s64": set()}
    found_programs = programs(folder / "hlo")
    assert len(found_programs) > len(CASES)
    for program in found_programs:
        for line in program.splitlines():
            if found := re.match(r"\s*(?:ROOT )?\S+ = (\([^=]*?\)|\S+) ([\w-]+)\(", line):
                for kind, operators in kinds.items():
                    if f"{kind}[" in found[1]:
                        operators.add(found[2])
    moved = {"broadcast", "concatenate", "copy", "parameter", "reshape", "select", "slice", "tuple"}
    computed = {"add", "constant", "convert", "divide", "multiply", "subtract"}
    assert kinds["f64"] <= moved | computed | {"gather", "get-tuple-element"}
    assert not kinds["s64"] & {"scatter", "sort", "reduce-window", "power", "dot"}
    exchanges = {"all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"}
    assert kinds["s64"] & exchanges <= {"all-gather"}
    assert {"add", "multiply"} <= kinds["f64"]  # else this would see nothing


# --- several devices ------------------------------------------------------------------------------


def test_four_devices_train_as_one(folder, four_devices, one_device):
    assert four_devices["devices"] == 4
    assert four_devices["device"] == "XLA on the CPU, 4 devices"
    wanted = Trained.read(folder / "one" / "plain")
    Trained.read(folder / "four" / "plain").check_equal(wanted)


def test_each_of_four_devices_does_a_quarter_of_the_work(folder, tmp_path):
    """Equal results alone would not show it: each could compute them all."""
    config = on("xla", folder, **(SHORT | {"num_steps": 2}))
    found_by([Run(config, tmp_path / "run")], tmp_path, 4, dumped_to(tmp_path / "hlo"))
    tokens = config.pretrain.batch_size * config.pretrain.sequence_length
    whole = flops_per_token(config.pretrain, VOCAB_SIZE, 32, "joint").matmul * tokens
    step = max(map(flops_of_products, programs(tmp_path / "hlo")))
    assert step == pytest.approx(whole / 4, rel=0.01)


def flops_of_products(program: str) -> int:
    """Two for each factor of each sum in its matrix products."""
    shapes = dict(re.findall(r"(%\S+) = \w+\[([\d,]*)\]", program))
    products = r"= \w+\[([\d,]*)\]\S* dot\((%[\w.-]+),.*?lhs_contracting_dims=\{(\d+)\}"
    total = 0
    for result, left, summed in re.findall(products, program):
        sizes = [int(size) for size in result.split(",")]
        total += 2 * math.prod(sizes) * int(shapes[left].split(",")[int(summed)])
    return total


def test_padding_and_a_batch_that_is_not_full_count_for_nothing(folder, four_devices, on_cpu):
    Trained.read(folder / "four" / "padded").check_equal(on_cpu["padded"])


def test_killed_and_continued_ends_bit_identical(folder, one_device):
    """Dropout included, in processes of their own."""
    config = on("xla", folder, **WITH_DROPOUT)
    target = folder / "killed"
    done = launch([Run(config, target, killed_at=KILLED_AT)], target)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    assert checkpoints(target)[-1].name == "checkpoint-8"
    found_by([Run(config, target)], target)
    Trained.read(target).check_same(Trained.read(folder / "one" / "dropout"))
