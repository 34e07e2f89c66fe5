"""A run at an address: whole there or not there, the same bytes everywhere, whatever fails."""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from electrify.config.load import load_config
from electrify.stage import remote as remote_run
from electrify.stage.folder import (
    MANIFEST,
    Stage,
    check_files,
    input_digest,
    outdated,
    read_manifest,
)
from electrify.stage.remote import local_folder, open_address, open_run, push_rewritten
from electrify.stage.run import run_stage
from electrify.storage import folder as remote_folder
from electrify.storage.folder import Folder
from tests.electrify.stage.conftest import refuse
from tests.faulty_storage import FaultyStorage, storage_of_gs


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(remote_folder, "FIRST_WAIT_SECONDS", 0.0)
    monkeypatch.setenv(remote_run.WORK_DIR, str(tmp_path / "one"))


@pytest.fixture(scope="module")
def storage():
    """A bucket `runs` that gs:// addresses reach, behind a proxy; gcsfs waits for nothing."""
    no_sleep = SimpleNamespace(sleep=lambda seconds: asyncio.sleep(0))
    with storage_of_gs("runs") as faulty, pytest.MonkeyPatch.context() as patch:
        patch.setattr("gcsfs.retry.asyncio", no_sleep)
        yield faulty


@pytest.fixture
def memory() -> str:
    return f"memory://{uuid4().hex}/run"


@pytest.fixture
def gs(storage: FaultyStorage) -> str:
    return f"gs://runs/{uuid4().hex}"


@pytest.fixture(params=["folder", "memory", "gs", "failing"])
def address(request, tmp_path: Path) -> Iterator[str]:
    """Of "failing" a quarter of the requests is refused, dropped, unanswered or cut off."""
    if request.param == "folder":
        yield f"file://{tmp_path}/mounted/run"
    elif request.param == "failing":
        storage = request.getfixturevalue("storage")
        storage.rate, before = 0.25, storage.faults.total()
        yield request.getfixturevalue("gs")
        storage.rate = 0.0
        assert storage.faults.total() > before
    else:
        yield request.getfixturevalue(request.param)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """The local folder of the run at an address on a machine that has just been started."""

    def machine(name: str, address: str) -> Path:
        monkeypatch.setenv(remote_run.WORK_DIR, str(tmp_path / name))
        return open_address(address)

    return machine


def clean(run: Path, text: str = "하나") -> Stage:
    return Stage("clean", run / "clean", {"text": text}, {"a.txt": "11"})


def make(stage: Stage, overwrite: bool = False) -> bool:
    """Data, a figure, and a card that later verbs write anew."""

    def work(folder: Path) -> dict[str, int]:
        for name in ("documents-0.parquet", "deep/tokens-0.npy", "report.json"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(f"{stage.config['text']} {name} {stage.inputs}")
        (folder / "README.md").write_text("a card")
        return {"documents": 1}

    return run_stage(replace(stage, rewritten=("README.md",)), work, overwrite)


def after(run: Path) -> Stage:
    """A stage that reads `clean`."""
    inputs = {"clean": input_digest(run / "clean", "clean")}
    return Stage("encode", run / "shards", {"text": "b"}, inputs, reads={"clean": run / "clean"})


def there(address: str) -> dict[str, bytes]:
    files = Folder(address)
    return {name: files.read(name) for name in files.files()}


def whole(address: str, stage: str = "clean") -> bool:
    """Whether a stage stands there; then all its files must be those of its manifest."""
    files = there(address)
    if f"{stage}/{MANIFEST}" not in files:
        return False
    for name, entry in json.loads(files[f"{stage}/{MANIFEST}"])["files"].items():
        assert hashlib.sha256(files[f"{stage}/{name}"]).hexdigest() == entry["sha256"]
    return True


def test_another_machine_resumes_where_one_has_ended(machine, address, tmp_path):
    """From the same bytes; nothing is made twice, and nothing else stands there."""
    assert make(clean(machine("one", address)))
    assert whole(address)
    second = machine("two", address)
    assert run_stage(clean(second), refuse) is False
    check_files(second / "clean", "clean")
    assert make(after(second))
    first = machine("one", address)
    assert run_stage(after(first), refuse) is False
    (first / "clean" / "README.md").write_text("a card with scores")
    push_rewritten(first / "clean")
    third = machine("three", address)
    assert (third / "clean" / "README.md").read_text() == "a card with scores"
    names = set()
    local = tmp_path / "local"
    for stage in (clean, after):
        folder = stage(local).folder
        assert make(stage(local))
        made = read_manifest(folder)
        assert made["digest"] == read_manifest(third / folder.name)["digest"]
        names |= {f"{folder.name}/{name}" for name in (MANIFEST, *made["files"])}
    assert there(address).keys() == names


def test_wherever_an_upload_breaks_off_the_stage_is_not_there(machine, memory, monkeypatch):
    """Nor the older one that it replaces. The same command sends the rest, without doing the work
    again."""
    original, allowed = MemoryFileSystem.mv, 0

    def mv(self, *arguments, **options):
        nonlocal allowed
        allowed -= 1
        if allowed < 0:
            raise PermissionError("no right to write")
        return original(self, *arguments, **options)

    monkeypatch.setattr(MemoryFileSystem, "mv", mv)
    for number in range(5):  # four files and a manifest
        address = f"{memory}{number}"
        run = machine("one", address)
        allowed = 9
        make(clean(run, "둘"))
        allowed = number
        with pytest.raises(ValueError, match=rf"{address} cannot be written .*no right to write"):
            make(clean(run), overwrite=True)
        assert not whole(address)
        allowed = 9
        assert run_stage(clean(run), refuse) is False
        assert whole(address)
        assert outdated(clean(machine("two", address))) is None


def test_a_newer_stage_of_another_machine_replaces_the_copy(machine, memory):
    first = machine("one", memory)
    make(clean(first))
    second = machine("two", memory)
    make(clean(second, "둘"), overwrite=True)
    first = machine("one", memory)
    assert outdated(clean(first, "둘")) is None
    Folder(memory).remove_folder("clean", first=MANIFEST)
    assert run_stage(clean(machine("two", memory), "둘"), refuse) is False
    assert whole(memory)  # what was removed there is sent again


def test_what_another_machine_finished_meanwhile_is_taken_over(machine, memory):
    first = machine("one", memory)
    make(clean(machine("two", memory), "둘"))
    files = there(memory)
    with pytest.raises(ValueError, match="other"):
        make(clean(first))
    assert there(memory) == files
    assert run_stage(clean(first, "둘"), refuse) is False


def test_two_machines_with_different_stages_are_refused(machine, memory, monkeypatch):
    run = machine("one", memory)
    with monkeypatch.context() as patch:
        patch.setattr("electrify.stage.run.push", lambda _: None)
        make(clean(run))
    make(clean(machine("two", memory), "둘"))
    with pytest.raises(ValueError, match=r"clean differs here .* and at memory://"):
        machine("one", memory)


def test_damage_there_is_named_and_never_taken_for_the_file(machine, tmp_path, memory):
    make(clean(machine("one", memory)))
    Folder(memory).write("clean/documents-0.parquet", b"other")
    with pytest.raises(ValueError, match=r"run/clean/documents-0\.parquet is damaged"):
        machine("two", memory)
    assert not [*(tmp_path / "two").rglob("clean*")]
    Folder(memory).write(f"clean/{MANIFEST}", b'{"files": {"../../x": {}}}')
    with pytest.raises(ValueError, match=r"memory://.*/run/clean/manifest\.json is damaged"):
        machine("three", memory)


def test_checkpoints_of_another_plan_are_dropped_on_demand_alone(machine, address):
    def training(run: Path, seed: int = 0) -> Stage:
        return Stage("pretrain", run / "pretrain", {"seed": seed}, resumable=True)

    def lost(folder: Path) -> dict[str, int]:
        Folder(address).write("pretrain.partial/checkpoint-1/state.json", b"{}")
        raise KeyboardInterrupt

    kept = {"pretrain.partial/plan.json", "pretrain.partial/checkpoint-1/state.json"}
    for name in ("one", "two"):
        with pytest.raises(KeyboardInterrupt):
            run_stage(training(machine(name, address)), lost)
        assert there(address).keys() == kept
    other = training(machine("three", address), seed=1)
    with pytest.raises(ValueError, match=r"pretrain\.partial is the unfinished work of another"):
        run_stage(other, refuse)
    assert there(address).keys() == kept
    assert run_stage(other, lambda folder: {}, overwrite=True)
    assert there(address).keys() == {f"pretrain/{MANIFEST}"}


def test_a_lost_machine_takes_no_finished_scores_with_it(machine, memory):
    """Where it was adding to them; the same machine resumes its own work."""

    def scores(run: Path, tasks: str) -> Stage:
        inputs = {"data": tasks}
        return Stage("evaluate", run / "evaluate", {}, inputs, resumable=True, keyed=True)

    def add(folder: Path) -> dict[str, int]:
        with (folder / "results.jsonl").open("a") as file:
            file.write("a score\n")
        return {}

    def lost(folder: Path) -> dict[str, int]:
        add(folder)
        raise KeyboardInterrupt

    assert run_stage(scores(machine("one", memory), "nli"), add)
    with pytest.raises(KeyboardInterrupt):
        run_stage(scores(machine("one", memory), "nli, sts"), lost)
    assert whole(memory, "evaluate")
    assert run_stage(scores(machine("two", memory), "nli"), refuse) is False
    run = machine("one", memory)
    assert run_stage(scores(run, "nli, sts"), add)
    assert (run / "evaluate" / "results.jsonl").read_text() == "a score\n" * 3
    assert whole(memory, "evaluate")


# --- a service that fails -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words", "is_asked_again"),
    [
        (503, "the same command resumes", True),
        (403, "the right to read", False),
        (404, "the address exists", False),
    ],
)
def test_a_service_that_refuses_is_named_with_what_to_do(
    machine, gs, storage, monkeypatch, code, words, is_asked_again
):
    monkeypatch.setattr(remote_folder, "NUM_TRIES", 2)
    before = storage.num_requests
    storage.status = code
    try:
        with pytest.raises(ValueError, match=rf"{gs} cannot be read .*{words}"):
            machine("one", gs)
    finally:
        storage.status = None
    assert (storage.num_requests - before > 2) == is_asked_again


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # gcsfs to aiohttp
def test_a_large_upload_whose_answer_was_lost_is_found(tmp_path, gs, storage, monkeypatch):
    """Above 5 MB gcsfs opens an upload; the emulator forgets it when it has ended."""
    path = tmp_path / "large.bin"
    path.write_bytes(os.urandom(6 * 2**20))
    place = Folder(gs)
    original, lost = FaultyStorage._draw, 0

    def draw(self, key):
        nonlocal lost
        if "upload_id" in key[1] and key[0] == "POST" and not lost:
            lost += 1
            return "answer lost"
        return original(self, key)

    monkeypatch.setattr(FaultyStorage, "_draw", draw)
    place.put(path, "large.bin")
    assert lost == 1
    assert place.read("large.bin") == path.read_bytes()


# --- verbs ----------------------------------------------------------------------------------------


def test_a_config_works_in_a_folder_and_mirrors_its_checkpoints(memory, tmp_path):
    config = open_run(load_config("configs/demo.toml", [f"output_dir={memory}/"]))
    assert Path(config.output_dir) == local_folder(memory)
    assert Path(config.output_dir).is_relative_to(tmp_path / "one")
    assert Path(config.output_dir).name == "run"
    assert config.pretrain.checkpoint_dir == f"{memory}/pretrain.partial"
    kept = ["pretrain.checkpoint_dir=elsewhere", f"output_dir={memory}"]
    assert open_run(load_config("configs/demo.toml", kept)).pretrain.checkpoint_dir == "elsewhere"
