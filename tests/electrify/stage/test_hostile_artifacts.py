"""Manifests, plans, locks and configs that somebody wrote by hand: refused, with the file named."""

import fcntl
import json

import pytest

from electrify.config.load import load_config
from electrify.stage.folder import Stage, check_files, input_digest, read_manifest
from electrify.stage.lock import lock_path, stage_lock
from electrify.stage.run import run_stage
from electrify.system.outcome import panics_as_errors

CONFIG = """name = "a"
output_dir = "out"
[clean]
sources = [{ kind = "text", language = "en", path = "a.txt" }]
"""


def _made(folder, **changes):
    """A finished stage whose manifest has no checksum, as those of before, and these changes."""

    def work(partial):
        (partial / "a.txt").write_text("a")
        return {}

    stage = Stage("clean", folder / "clean", {"a": 1})
    run_stage(stage, work)
    path = stage.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest.pop("manifest_sha256")
    path.write_text(json.dumps(manifest | changes))
    return stage


@pytest.mark.parametrize(
    "changes",
    [
        {"files": []},
        {"files": {"a.txt": 3}},
        {"files": {"a.txt": {"bytes": "1"}}},
        {"files": {"a.txt": {"bytes": 1, "sha256": None}}},
        {"config": 3},
        {"inputs": [1]},
        {"digest": None},
        {"rewritten": 5},
        {"files": {"../secret.txt": {"bytes": 1, "sha256": "0"}}},
        {"files": {"/etc/hostname": {"bytes": 1, "sha256": "0"}}},
    ],
    ids=str,
)
def test_a_manifest_of_another_form_is_damaged(tmp_path, changes):
    stage = _made(tmp_path, **changes)
    for read in (read_manifest, lambda f: check_files(f, "clean"), lambda f: input_digest(f, "x")):
        with pytest.raises(ValueError, match=r"manifest\.json is damaged"):
            read(stage.folder)


@pytest.mark.parametrize("data", [b"", b"\xff", b'{"stage"', b"[" * 100_000, b"3"])
def test_a_plan_that_cannot_be_read_is_of_another_run(tmp_path, data):
    stage = Stage("clean", tmp_path / "clean", {"a": 1}, resumable=True)
    stage.partial.mkdir()
    (stage.partial / "plan.json").write_bytes(data)
    with pytest.raises(ValueError, match=r"clean\.partial is the unfinished work of another"):
        run_stage(stage, lambda partial: {})


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[1]", b'{"since": 1e400}', b'{"since": %s}' % (b"9" * 400), b"[" * 9999],
)
def test_a_lock_says_what_it_can_of_its_holder(tmp_path, data):
    path = lock_path(tmp_path / "clean")
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with (
            pytest.raises(ValueError, match="clean is being written by"),
            stage_lock(tmp_path / "clean"),
        ):
            pass


@pytest.mark.parametrize(
    "line",
    [
        f"seed = {'1' * 5000}",
        f"x = {'[' * 5000}{']' * 5000}",
        f"[{'a.' * 3000}b]\nc = 1",
        "name = '\udcff'",
    ],
    ids=["digits", "deep", "dotted", "bytes"],
)
def test_a_config_beyond_all_limits_is_refused(tmp_path, line):
    path = tmp_path / "run.toml"
    path.write_bytes(f"{CONFIG}{line}\n".encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"run\.toml") as refused:
        load_config(path)
    assert not isinstance(refused.value, UnicodeError)


@pytest.mark.parametrize(
    "line",
    [
        f"[pretrain]\nnum_steps = {10**400}",
        "name = 07:32:00",
        f"[vocab]\nnum_unused = {10**12}",
        f"[clean]\nmax_repeats = {10**12}",
    ],
    ids=["steps", "time", "unused", "repeats"],
)
def test_a_value_that_nothing_can_hold_is_refused_with_the_file(tmp_path, line):
    path = tmp_path / "run.toml"
    path.write_text(line)
    with pytest.raises(ValueError, match=r"run\.toml"):
        load_config(path)


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 5000], ids=["digits", "deep"])
def test_a_set_beyond_all_limits_is_refused(tmp_path, value):
    path = tmp_path / "run.toml"
    path.write_text(CONFIG)
    with pytest.raises(ValueError, match="seed"):
        load_config(path, [f"seed={value}"])


class PanicException(BaseException):
    """As pyo3 names it."""


def test_a_panic_is_an_error_and_an_interrupt_stays_one():
    with pytest.raises(ValueError, match="of rust"), panics_as_errors():
        raise PanicException("of rust")
    with pytest.raises(KeyboardInterrupt), panics_as_errors():
        raise KeyboardInterrupt
