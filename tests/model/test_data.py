"""Batches as the model takes them: each from its step alone, however many processes share it; what
steps read against the plan of it.

And the loader, which reads them ahead and leaves no thread behind however the loop ends.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from electrify.config.pretrain import MixtureConfig
from electrify.config.run import RunConfig
from electrify.system.progress import Stopped
from model import data as data_module
from model.data import Loader, SequenceData, StepData, check_batch_sizes, noise_key, open_shards
from model.devices.device import seed_of
from model.networks.batch import Batch, Noise
from model.plan import Phase, phase_at
from tests.model.conftest import SPECIAL, VOCAB_SIZE, make_config, with_pretrain, write_tiny_shards
from tests.vocab.shard_files import write_shards

CPU = torch.device("cpu")


def joined(batches: list[Batch]) -> list[torch.Tensor]:
    """The ids first, the draws of samples fifth."""
    parts = zip(*(batch.tensors() for batch in batches), strict=True)
    return [torch.cat(part) for part in parts]


# --- the batch of a step --------------------------------------------------------------------------


TEN_STEPS = {"num_steps": 10, "batch_size": 6, "micro_batch_size": 2}
FIRST = {"sequence_length": 16, "steps_fraction": 0.3, "batch_size": 12}
SECOND = {"sequence_length": 32, "steps_fraction": 0.2}
CURRICULUM = TEN_STEPS | {"curriculum": [FIRST | {"micro_batch_size": 3}, SECOND]}


def step_data(config: RunConfig, rank: int = 0, num_ranks: int = 1) -> StepData:
    shards = open_shards(Path(config.output_dir) / "shards")
    return StepData(config, shards, rank, num_ranks)


def test_micro_batches_are_the_steps_batch_in_pieces(tmp_path: Path):
    write_tiny_shards(tmp_path / "shards")
    config = make_config(tmp_path, **CURRICULUM)
    data = step_data(config)
    seen = 0
    for step in range(10):
        count, length, micro = (12, 16, 3) if step < 3 else (6, 32, 2)
        whole = SequenceData(with_pretrain(config, sequence_length=length), "train")
        expected = whole.batch(seen, count, noise_key(config.seed, step)).tensors()
        batches = data.micro_batches(step)
        assert [len(batch.input_ids) for batch in batches] == [micro] * (count // micro)
        assert all(map(torch.equal, joined(batches), expected))
        seen += count
    assert [phase.first_step for phase in data.phases] == [0, 3, 5]


def test_a_phase_has_a_mixture_and_masks_of_its_own(tmp_path: Path):
    """As a run has that is nothing but this phase."""
    write_two_languages(tmp_path)
    early = {"mask_fraction": 0.4, "mixture": {"temperature": 0.2}}
    curriculum = [{"steps_fraction": 0.5, **early}]
    options = {"num_steps": 8, "batch_size": 16}
    data, alone, rest = (
        step_data(make_config(tmp_path, **options, **of))
        for of in ({"curriculum": curriculum}, early, {})
    )
    for step in range(8):
        (batch,) = data.micro_batches(step)
        (expected,) = (alone if step < 4 else rest).micro_batches(step)
        assert all(map(torch.equal, batch.tensors(), expected.tensors()))
        assert batch.mask_fraction == expected.mask_fraction == (0.4 if step < 4 else 0.15)


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_ranks_together_have_the_rows_of_one_and_draws_of_their_own(tmp_path: Path, num_ranks: int):
    options = TEN_STEPS | {"micro_batch_size": 1, "curriculum": [FIRST]}
    write_tiny_shards(tmp_path / "shards")
    config = make_config(tmp_path, **options)
    alone = step_data(config)
    ranks = [step_data(config, rank, num_ranks) for rank in range(num_ranks)]
    for step in (0, 2, 3, 9):
        whole = joined(alone.micro_batches(step))
        parts = [joined(data.micro_batches(step)) for data in ranks]
        for number, tensor in enumerate(whole):
            together = torch.empty_like(tensor)
            for rank, part in enumerate(parts):
                together[rank::num_ranks] = part[number]
            is_draw = tensor.is_floating_point()
            assert torch.equal(together, tensor) != is_draw
            assert not is_draw or len(together.unique()) == together.numel()


@pytest.mark.parametrize(
    ("batch", "micro", "num_ranks", "device", "words"),
    [
        (6, 6, 4, "cpu", "batch_size = 6 must be a multiple of the 4 processes.*_size = 6"),
        (6, 2, 2, "cpu", "batch_size = 6 must be a multiple of the 2 processes.*_size = 2"),
        (12, 12, 1, "xla", r"\.batch_size = 12 .* the devices \(TPU v6e, 8 .*: set 8 or 16"),
        (128, 4, 1, "xla", "micro_batch_size = 4 must be a multiple .*: set 8"),
    ],
)
def test_rows_that_processes_or_devices_cannot_share_are_refused(
    monkeypatch: pytest.MonkeyPatch, batch: int, micro: int, num_ranks: int, device: str, words: str
):
    monkeypatch.setattr(data_module, "num_devices", lambda of: 8 if of.type == "xla" else 1)
    monkeypatch.setattr(data_module, "describe", lambda device: "TPU v6e, 8 devices")
    phases = [Phase(0, 5, 128, 128, 128), Phase(5, 5, 128, 128, 16)]
    check_batch_sizes(phases, num_ranks, torch.device(device))
    with pytest.raises(ValueError, match=words):
        check_batch_sizes([Phase(0, 5, 128, batch, micro)], num_ranks, torch.device(device))


def test_the_key_of_draws_is_another_at_each_seed_step_and_rank():
    """In its lowest 32 bits: torch's generator on the CPU knows no others."""
    grid = itertools.product(range(3), [*range(10_000), 10**6, 2**31], [*range(3), 7])
    keys = [key(*place) % 2**32 for place in grid for key in (noise_key, seed_of)]
    assert len(set(keys)) == len(keys)


def write_two_languages(folder: Path) -> None:
    """Much Korean and little English, of other pieces."""
    rng, documents = np.random.default_rng(1), {}
    for language, number, first in (("ko", 600, 5), ("en", 60, 25)):
        weights = rng.random(20)
        texts = [
            [*(first + rng.choice(20, 20, p=weights / weights.sum())).tolist(), 1, 3]
            for _ in range(number)
        ]
        documents |= {("train", language): texts, ("valid", language): texts[:9]}
    write_shards(folder / "shards", documents, VOCAB_SIZE, "0" * 64, SPECIAL)


# --- the loader -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_thread_is_left():
    def threads() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.startswith("loader")]

    assert not threads()
    yield
    assert not threads()


class Source:
    """Batches whose every id is the number of the step; tells what was asked for, and where."""

    def __init__(self, before: Callable[[int], object] = lambda step: None) -> None:
        self.before, self.asked = before, list[int]()
        self.threads = set[str]()

    def micro_batches(self, step: int) -> list[Batch]:
        self.asked.append(step)
        self.threads.add(threading.current_thread().name)
        self.before(step)
        ids = torch.full((2, 8), step)
        noise = Noise.draw(step, 2, 8, 1)
        return [Batch(ids, torch.zeros_like(ids), noise, torch.zeros(2, dtype=torch.int64))]


def taken(loader: Loader) -> int:
    [batch] = loader.take()
    return int(batch.input_ids[0, 0])


def test_the_thread_reads_a_bounded_number_of_steps_ahead_and_none_beyond_the_end():
    source = Source()
    with Loader(source.micro_batches, CPU, 4, 20) as loader:
        for step in range(4, 20):
            time.sleep(0.002)  # it has time to go too far
            assert max(source.asked, default=0) <= step + 1
            assert taken(loader) == step
    assert source.asked == list(range(4, 20))
    [thread] = source.threads
    assert thread.startswith("loader")


@pytest.mark.parametrize("kind", ["cpu", "xla"])
def test_the_thread_sends_batches_to_xla_ahead_and_to_no_other_device(kind: str):
    """CUDA breaks off the capture of a graph when another thread allocates."""
    moved: list[str] = []

    class Read:
        def to(self, device: torch.device) -> str:
            moved.append(threading.current_thread().name)
            return device.type

    with Loader(lambda step: [Read()], torch.device(kind), 0, 4) as loader:
        for _ in range(4):
            assert loader.take() == [kind]
    assert len(moved) == 4
    assert all(name.startswith("loader") == (kind == "xla") for name in moved)


def test_an_error_of_the_thread_is_raised_in_the_loop_at_its_step():
    def fail(step: int) -> None:
        if step == 3:
            raise ValueError(f"shard of step {step} is damaged")

    with Loader(Source(fail).micro_batches, CPU, 0, 10) as loader:
        for step in range(3):
            assert taken(loader) == step
        with pytest.raises(ValueError, match="shard of step 3 is damaged"):
            loader.take()


@pytest.mark.parametrize("error", [Stopped("saved"), KeyboardInterrupt(), ValueError("loss")])
def test_a_loop_that_breaks_off_leaves_no_thread(error):
    source = Source(lambda step: time.sleep(0.01))
    with pytest.raises(type(error)), Loader(source.micro_batches, CPU, 0, 1000) as loader:  # noqa: PT012
        loader.take()
        raise error
    read = len(source.asked)
    time.sleep(0.03)
    assert len(source.asked) == read <= 3


# --- fractions of a run ---------------------------------------------------------------------------

STEPS = {"num_steps": 40, "batch_size": 16, "warmup_steps": 1}
PHASES = [{"steps_fraction": 0.5, "sequence_length": 16, "mixture": {"temperature": 0.7}}]
PHASES += [{"steps_fraction": 0.3, "mixture": {"temperature": 0.5}}]


def test_passes_are_what_the_steps_read(tmp_path: Path):
    write_two_languages(tmp_path)
    mixture = {"temperature": 0.3, "weight": {"ko": 0.5}}
    config = make_config(tmp_path, **STEPS, curriculum=PHASES, mixture=mixture)
    data, passes = step_data(config), Counter[str]()
    for step in range(config.pretrain.num_steps):
        for batch in data.micro_batches(step):
            reader = data._data[phase_at(data.phases, step).first_step].reader
            for number in batch.languages.tolist():
                passes[reader.languages[number]] += 1 / reader.schedule.sizes[number]
    assert data.passes() == pytest.approx(passes, rel=0.1)


def test_what_the_shards_lack_is_named(tmp_path: Path):
    write_two_languages(tmp_path)
    config = make_config(tmp_path, **STEPS)
    # as where a source finds out its languages
    mixed = with_pretrain(config, mixture=MixtureConfig(weight={"xx": 2.0}))
    with pytest.raises(ValueError, match=r"mixture\.weight: the shards have no 'xx'"):
        step_data(mixed)
