"""Files between the passes at any address: whole or not there, and the same rows everywhere."""

import errno
import pickle
import shutil
from contextlib import suppress

import fsspec
import pytest

from electrify.storage import folder as folders
from electrify.storage.folder import Folder
from electrify.system.outcome import UserError
from pipeline import clean as clean_module
from pipeline import work_folder as work_folders
from pipeline.clean import clean
from pipeline.dedup import batches
from pipeline.sources import files as sources
from pipeline.work_folder import work_folder
from tests.pipeline.builders import config_of, contents, documents, removed, write_texts
from tests.pipeline.sources.reading import write_files


@pytest.fixture(params=["local", "memory://runs", "gs://corpus/tmp"])
def work(request, tmp_path):
    if request.param.startswith("gs:"):
        request.getfixturevalue("bucket")
    address = str(tmp_path / "mount") if request.param == "local" else request.param
    with work_folder("clean", address, tmp_path, {}) as folder:
        yield folder
    assert not folder.exists("README")


def test_what_is_published_is_found(work, tmp_path):
    work = pickle.loads(pickle.dumps(work))  # as a worker gets it
    index = {"x": "x", "y": "y"}
    with work.scratch() as folder:
        work.publish(write_files(folder / "index", index))
    for _ in range(2):  # as a runner may
        work.write("b.txt", "가나다".encode())
    with work.new_file("a.bin") as path:
        path.write_bytes(b"\0\xff" * 500)
        assert not work.exists("a.bin")
    assert work.names() == ["README", "a.bin", "b.txt", "index"]
    assert [work.exists(name) for name in ("a.bin", "index", "c")] == [True, True, False]
    assert work.read_all(["b.txt"] * 3) == ["가나다".encode()] * 3
    with work.fetch("index") as path:
        assert {of.name: of.read_text(encoding="utf-8") for of in path.iterdir()} == index
    work.move_out({"a.bin": tmp_path / "a"})
    assert (tmp_path / "a").read_bytes() == b"\0\xff" * 500


@pytest.mark.parametrize("address", ["memory://line", "mount"])
def test_a_storage_that_fails_is_not_taken_for_an_empty_one(tmp_path, monkeypatch, address):
    """A part of a pass that is said not to be there would be left out of the corpus."""
    work = Folder(address if "://" in address else str(tmp_path / address))
    work.write("index/x", b"x")
    file_system = type(fsspec.filesystem("file" if work.local else "memory"))
    failing = []

    def once_down(function):
        def ask(self, path, *arguments, **options):
            if str(path).endswith(("index", "x")) and failing:
                raise failing.pop()
            return function(self, path, *arguments, **options)

        return ask

    for name in ("info", "ls"):
        monkeypatch.setattr(file_system, name, once_down(getattr(file_system, name)))
    monkeypatch.setattr(folders, "FIRST_WAIT_SECONDS", 0.0)
    for ask in (lambda: work.exists("index/x"), lambda: list(work.files()) == ["index/x"]):
        failing.append(TimeoutError("no answer"))
        assert ask()
        failing.append(OSError(errno.EIO, "Input/output error"))
        with pytest.raises(OSError, match="Input/output error"):
            ask()


@pytest.mark.parametrize(
    ("has", "message"),
    [
        ("no folder", r"worker on .* does not see .*set beam\.work_dir"),
        ("other code", r"has pyarrow 1\.0, not \d.*install the wheel"),
        ("no rights", r"cannot read memory://.* the right to"),
    ],
)
def test_a_worker_that_cannot_take_part_says_so(tmp_path, monkeypatch, has, message):
    def forbidden(*_):
        raise PermissionError("Forbidden: the account has no\nstorage.objects.get")

    with work_folder("encode", "memory://rights", tmp_path, {}) as work:
        here = work_folders.code_versions()
        address = work.address if has != "no folder" else f"{work.address}-other"
        if has == "no rights":
            monkeypatch.setattr(Folder, "read", forbidden)
        elif has == "other code":
            monkeypatch.setattr(work_folders, "code_versions", lambda: here | {"pyarrow": "1.0"})
        work_folders.check_worker.cache_clear()
        with pytest.raises(UserError, match=message):
            work_folders.check_worker(address)


def _text(number):
    return f"{chr(0xAC00 + number)}번째 문장은 {chr(0xB000 + number)} 다른 문장과 다르다."


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Cleans three groups of files with copies and a benchmark text among them."""
    monkeypatch.setattr(sources, "FILE_BATCH_BYTES", 1)
    for start, name in ((0, "a"), (50, "b"), (120, "c")):
        texts = map(_text, range(start, start + 80))
        write_texts(tmp_path / "raw" / f"{name}.jsonl", [*texts, ""])
    row = write_texts(tmp_path / "texts" / "a.jsonl", [_text(7)], task="t")

    def run_stage(options=(), path=tmp_path / "raw", **settings):
        settings = {"decontaminate_against": ["klue"]} | settings
        config = config_of(tmp_path, [f"{path}/*.jsonl"], **settings)
        shutil.rmtree(tmp_path / "out" / "clean", ignore_errors=True)
        clean(config, options, overwrite=False, benchmark_texts=row.parent)
        return contents(tmp_path / "out" / "clean")

    return run_stage


def test_a_run_in_a_bucket_makes_the_rows_of_a_local_one(tmp_path, run, bucket):
    """Sources and work folder in a bucket, two worker processes."""
    raw, folder = tmp_path / "raw", tmp_path / "out" / "clean"
    run()
    local = documents(folder), removed(folder)
    bucket.put(f"{raw}/", "corpus/raw/", recursive=True)
    run(["--direct_num_workers=2"], "gs://corpus/raw", work_dir="gs://corpus/tmp/")
    assert (documents(folder), removed(folder)) == local
    assert bucket.find("corpus/tmp") == []


def test_a_run_that_was_stopped_resumes_and_ends_with_the_same_bytes(tmp_path, run, monkeypatch):
    """In one process: nothing that is done is done again, and nothing is left behind."""
    options = ["--direct_running_mode=in_memory"]
    whole = run(options)
    calls = []

    def stopped_at(number, function):
        def work(*arguments):
            calls.append(function.__name__)
            if len(calls) == number:
                raise OSError("stopped here")
            return function(*arguments)

        return work

    functions = {clean_module._write_rows: clean_module, batches.pack_bands: batches}
    for function, module in functions.items():
        monkeypatch.setattr(module, function.__name__, stopped_at(5, function))
    with pytest.raises(Exception, match="stopped here"):
        run(options)
    assert calls == ["_write_rows"] * 3 + ["pack_bands"] * 2
    calls.clear()
    for function, module in functions.items():
        monkeypatch.setattr(module, function.__name__, stopped_at(0, function))
    assert run(options) == whole
    assert calls == ["pack_bands"] * 2
    assert not (tmp_path / "out" / ".work").exists()


def test_what_was_cleaned_of_other_scored_rows_is_not_resumed_from(tmp_path, run, monkeypatch):
    """A finished corpus is not bound to the rows that are scored; unfinished work is."""
    options, texts = ["--direct_running_mode=in_memory"], tmp_path / "texts" / "a.jsonl"
    with monkeypatch.context() as patched:
        patched.delattr(clean_module, "_finish")
        with pytest.raises(NameError, match="_finish"):
            run(options, decontaminate_against=None)
    write_texts(texts, [_text(9)], task="t")
    run(options, decontaminate_against=None)
    gone = removed(tmp_path / "out" / "clean")
    assert [_text(9)] == [row["text"] for row in gone if row["reason"] == "contaminated"]


def test_a_run_that_was_stopped_while_it_moved_its_files_loses_none(run, monkeypatch):
    options = ["--direct_running_mode=in_memory"]
    whole = run(options)
    move_out = Folder.move_out

    def stop_after_two(self, targets):
        move_out(self, dict([*targets.items()][:2]))
        raise OSError("stopped here")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "move_out", stop_after_two)
        with pytest.raises(OSError, match="stopped here"):
            run(options)
    assert run(options) == whole


@pytest.mark.parametrize("work_dir", [None, "memory://removal"])
def test_what_a_removal_that_was_stopped_has_left_is_not_resumed_from(
    tmp_path, monkeypatch, work_dir
):
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "remove_folder", lambda _: None)
        with work_folder("clean", work_dir, tmp_path / "out", {}) as work:
            work.write("a", b"a")
    assert work.names() == ["a"]
    with work_folder("clean", work_dir, tmp_path / "out", {}) as again:
        assert again.address == work.address
        assert again.names() == ["README"]


@pytest.mark.parametrize("work_dir", [None, "memory://plans", "memory://plans/"])
def test_what_another_plan_has_left_is_removed(tmp_path, work_dir):
    place = tmp_path / "clean.partial"
    with suppress(OSError), work_folder("clean", work_dir, place, {"a": 1}) as first:
        first.write("a", b"a")
        raise OSError("full")
    assert first.exists("a")
    with work_folder("encode", work_dir, place, {"a": 1}) as other:
        assert first.exists("a")
        assert not other.exists("a")
    with work_folder("clean", work_dir, place, {"a": 2}) as second:
        assert not first.exists("a")
        assert not second.exists("a")
    assert not (tmp_path / ".work").exists()


def test_a_checkout_and_its_wheel_are_the_same_code(tmp_path):
    names = ("electrify/a.py", "pipeline/rules/b.toml", "vocab/c.py")
    before = work_folders.code_digest(write_files(tmp_path, dict.fromkeys(names, "a = 1")))
    write_files(tmp_path, {"electrify/configs/demo.toml": "a = 2"})  # where the wheel has them
    assert work_folders.code_digest(tmp_path) == before
    write_files(tmp_path, {"pipeline/rules/b.toml": "a = 3"})
    assert work_folders.code_digest(tmp_path) != before
