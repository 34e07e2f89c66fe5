"""A stage folder is whole or not there, is redone exactly when what made it changed, and has one
writer; a killed one locks nothing."""

import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from electrify.stage.folder import (
    PLAN,
    Stage,
    canonical,
    check_files,
    fingerprint,
    input_digest,
    lock_path,
    open_partial,
    outdated,
    read_manifest,
    stage_lock,
    whole_file,
    write_json,
)
from electrify.stage.run import run_stage
from tests.electrify.stage.conftest import refuse


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    sources = ({"path": "a"}, {"path": "c"})
    config = {"min_characters": 10, "sources": sources}
    return Stage("clean", tmp_path / "clean", config, {"a.txt": "11"})


def write_one(folder: Path) -> dict[str, int]:
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "one.txt").write_text("하나")
    return {"documents": 1}


def test_a_finished_folder_has_a_manifest_of_every_file(stage: Stage):
    assert run_stage(stage, write_one)
    manifest, path = read_manifest(stage.folder), stage.folder / "data" / "one.txt"
    file = {"bytes": len("하나".encode()), "sha256": fingerprint(str(path))}
    assert manifest["files"] == {"data/one.txt": file}
    assert manifest["counts"] == {"documents": 1}
    assert manifest["config"] == canonical(stage.config)
    assert not (stage.folder / PLAN).exists()
    assert not stage.partial.exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config": {"min_characters": 20}}, "config min_characters changed from 10 to 20"),
        (
            {"config": {"min_characters": 10, "sources": ({"path": "a"}, {"path": "b"})}},
            r"config sources\[1\]\.path changed from 'c' to 'b'\.",
        ),
        ({"inputs": {"a.txt": "22"}}, r"inputs a\.txt changed"),
        ({"inputs": {"a.txt": "11", "b.txt": "1"}}, r"inputs b\.txt changed"),
    ],
)
def test_a_changed_plan_is_refused_then_remade_on_demand(stage: Stage, change, reason):
    run_stage(stage, write_one)
    before = read_manifest(stage.folder)
    changed = replace(stage, **change)
    with pytest.raises(ValueError, match=reason):
        run_stage(changed, refuse)
    assert read_manifest(stage.folder) == before
    assert run_stage(changed, write_one, overwrite=True)
    assert outdated(changed) is None


def test_an_option_that_is_gone_since_leaves_a_finished_stage_done(stage: Stage):
    """Where it stands in the stage's own section: removed.toml names it."""
    config = dict(stage.config)
    sources = tuple(source | {"thread_field": "t"} for source in config["sources"])
    run_stage(replace(stage, config=config | {"strict": True, "sources": sources}), write_one)
    assert not run_stage(stage, refuse)
    assert outdated(replace(stage, config=config | {"strict": False})) is not None


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),  # Arrow
        OSError("33586 requested and 26560 written"),  # numpy
        Exception("No space left on device (os error 28)"),  # tokenizers; safetensors alike
    ],
)
def test_a_full_disk_is_an_error_of_the_system_that_names_the_folder(stage: Stage, error):
    def fail(folder: Path) -> dict[str, int]:
        raise error

    with pytest.raises(OSError, match="No space left on device") as raised:
        run_stage(stage, fail)
    assert raised.value.errno == errno.ENOSPC
    assert raised.value.filename == str(stage.partial)


def test_a_file_written_twice_at_once_is_whole_at_every_instant(tmp_path):
    path = tmp_path / "counts"
    with whole_file(path) as first:
        first.write_text("one ")
        with whole_file(path) as second:
            second.write_text("one and all")
            assert not path.exists()
        assert path.read_text() == "one and all"
        first.write_text("one and all")
    assert path.read_text() == "one and all"

    def fail() -> None:
        with whole_file(path) as third:
            third.write_text("one")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "one and all"
    assert list(tmp_path.iterdir()) == [path]


def test_a_resumable_stage_resumes_in_its_partial_folder(stage: Stage):
    stage = replace(stage, resumable=True)

    def interrupted(folder: Path) -> dict[str, int]:
        for name in ("first.txt", "mine.tmp", f"a.json.{'0f' * 16}.tmp"):
            (folder / name).write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_stage(stage, interrupted)
    changed = replace(stage, config={"min_characters": 99})
    with pytest.raises(
        ValueError, match=r"another config .*min_characters changed from 10 to 99\."
    ):
        run_stage(changed, refuse)
    run_stage(stage, write_one)
    files = {"first.txt", "mine.tmp", "data/one.txt"}  # none that was half written
    assert set(read_manifest(stage.folder)["files"]) == files


@pytest.mark.parametrize(("volatile", "is_equal"), [(("speed.json",), True), ((), False)])
def test_the_digest_is_of_content_not_of_time(stage: Stage, volatile, is_equal):
    def digest(clock: str) -> str:
        timed = replace(stage, folder=stage.folder.with_name(clock), volatile=volatile)
        run_stage(timed, lambda folder: {"bytes": (folder / "speed.json").write_text(clock)})
        return input_digest(timed.folder, "clean")

    assert (digest("1 s") == digest("2 s")) == is_equal


def test_a_changed_byte_of_what_a_stage_reads_is_found_before_it_works(stage: Stage):
    with pytest.raises(ValueError, match="run first: electrify clean CONFIG"):
        input_digest(stage.folder, "clean")
    run_stage(stage, write_one)
    after = Stage("vocab", stage.folder.with_name("vocab"), {}, reads={"clean": stage.folder})
    (stage.folder / "data" / "one.txt").write_text("둘나")
    with pytest.raises(ValueError, match=r"one\.txt has changed .* electrify clean CONFIG"):
        run_stage(after, refuse)
    (stage.folder / "data" / "one.txt").write_text("changed")
    with pytest.raises(ValueError, match=r"one\.txt is missing or has changed"):
        input_digest(stage.folder, "clean")
    (stage.folder / "data" / "one.txt").write_text("하나")
    assert run_stage(after, write_one)
    (stage.folder / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"no manifest\.json: not a finished stage"):
        input_digest(stage.folder, "clean")


@pytest.mark.parametrize("content", ["둘나", "하", None])
@pytest.mark.parametrize("volatile", [(), ("data/*",)])
def test_a_finished_stage_with_a_changed_file_is_not_done(stage: Stage, content, volatile):
    """A byte flipped, a copy that broke off, a file that is gone. Records of a keyed stage are made
    again; other files are not touched unless asked."""
    stage = replace(stage, keyed=bool(volatile), resumable=bool(volatile), volatile=volatile)
    run_stage(stage, write_one)
    path = stage.folder / "data" / "one.txt"
    path.unlink() if content is None else path.write_text(content)
    if not volatile:
        with pytest.raises(ValueError, match=r"one\.txt has changed .* `overwrite`"):
            run_stage(stage, refuse)
        assert path.exists() == (content is not None)
    assert run_stage(stage, write_one, overwrite=not volatile)
    assert not run_stage(stage, refuse)


def test_what_is_removed_beside_the_records_leaves_them_done(stage: Stage):
    """Kept networks take room; the scores stay."""
    stage = replace(stage, keyed=True, resumable=True, volatile=("results",))

    def work(folder: Path) -> dict[str, int]:
        (folder / "results").write_text("1")
        return write_one(folder)

    run_stage(stage, work)
    (stage.folder / "data" / "one.txt").unlink()
    assert not run_stage(stage, refuse)


def test_any_changed_byte_of_a_manifest_is_found_or_changes_nothing(stage: Stage):
    run_stage(stage, write_one)
    path = stage.folder / "manifest.json"
    content, manifest = path.read_bytes(), read_manifest(stage.folder)
    rng = random.Random(0)
    num_refused = 0
    for _ in range(300):
        changed = bytearray(content)
        changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            read = read_manifest(stage.folder)
        except ValueError as error:
            num_refused += str(path) in str(error)
        else:  # white space, or the checksum's own name
            assert {name: read[name] for name in manifest} == manifest
    assert num_refused > 250


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_stage_is_whole_wherever_a_kill_stops_its_replacement(stage: Stage, kills):
    """By the old plan or by the new one; the same command then ends what was begun."""
    changed = replace(stage, config={"min_characters": 20})

    def begin() -> None:
        run_stage(stage, write_one, overwrite=True)

    seen = set()
    for _ in kills(begin, lambda: run_stage(changed, write_one, overwrite=True)):
        assert input_digest(stage.folder, "clean")  # the next stage finds what was left
        check_files(stage.folder, "clean")
        seen.add(next(s.config["min_characters"] for s in (stage, changed) if outdated(s) is None))
        run_stage(changed, write_one, overwrite=True)
        check_files(stage.folder, "clean")
        assert outdated(changed) is None
        assert [path.name for path in stage.folder.parent.iterdir()] == ["clean"]
    assert seen == {10, 20}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_work_that_is_half_dropped_is_not_continued(stage: Stage, kills):
    stage = replace(stage, resumable=True)
    changed = replace(stage, config={"min_characters": 20})

    def begin() -> None:
        stage.partial.mkdir(exist_ok=True)
        for name in "abcdef":
            (stage.partial / name).touch()
        write_json(stage.partial / PLAN, stage.plan)

    def work() -> None:
        open_partial(changed, overwrite=True)

    for _ in kills(begin, work):
        open_partial(stage, overwrite=True)
        assert len(list(stage.partial.iterdir())) in (1, 7)


def test_a_folder_on_another_disk_stays_where_its_link_is_replaced(stage: Stage, tmp_path: Path):
    run_stage(stage, write_one)
    elsewhere = tmp_path / "disk" / "clean"
    elsewhere.parent.mkdir()
    stage.folder.rename(elsewhere)
    stage.folder.symlink_to(elsewhere)
    changed = replace(stage, config={"min_characters": 20})
    run_stage(changed, write_one, overwrite=True)
    assert outdated(changed) is None
    check_files(elsewhere, "clean")
    assert {path.name for path in tmp_path.iterdir()} == {"clean", "disk"}


# --- one writer -----------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from electrify.stage.folder import stage_lock
with stage_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def held(folder: Path) -> Iterator[int]:
    """The process that writes the folder, and is killed in the end."""
    words = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder.pid
        holder.kill()


def test_a_second_process_is_refused_and_what_a_killed_one_leaves_locks_nothing(stage: Stage):
    with held(stage.folder) as holder:
        with pytest.raises(ValueError, match=rf"process {holder} on .*, since 20\d\d-"):
            run_stage(stage, refuse)
        assert not stage.partial.exists()
    lock = lock_path(stage.folder)
    assert lock.exists()
    with stage_lock(stage.folder):
        assert f"process {os.getpid()} on " in lock.read_text()
    assert list(stage.folder.parent.iterdir()) == []
    assert run_stage(stage, lambda partial: {})
    lock.write_text("of one killed after its last rename", encoding="utf-8")
    assert not run_stage(stage, refuse)
    assert not lock.exists()
    with held(stage.folder):
        assert not run_stage(stage, refuse)
        assert lock.exists()


@pytest.mark.parametrize("data", [b"", b"\xff"])
def test_an_owner_that_cannot_be_read_still_holds(stage: Stage, data: bytes):
    with stage_lock(stage.folder):
        lock_path(stage.folder).write_bytes(data)
        with pytest.raises(ValueError, match="clean is being written by"), stage_lock(stage.folder):
            pass
