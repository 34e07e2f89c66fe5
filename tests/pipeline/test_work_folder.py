"""Files between the passes at any address: whole or not there, and the same bytes everywhere."""

import json
import pickle
import shutil

import fsspec
import pytest

from electrify.config.load import parse_config
from pipeline import clean as clean_module
from pipeline.clean import clean
from pipeline.sources import files as sources
from pipeline.work_folder import cleaned_rows, new_work_folder, remove_work_folder

ADDRESSES = ("local", "memory://runs", "gs://corpus/tmp")


def _folder(address, request, tmp_path):
    if address.startswith("gs:"):
        request.getfixturevalue("bucket")
    return str(tmp_path / "mount") if address == "local" else address


@pytest.fixture(params=ADDRESSES)
def work(request, tmp_path):
    folder = new_work_folder(_folder(request.param, request, tmp_path), tmp_path)
    yield folder
    remove_work_folder(folder)


def test_what_is_published_is_found(work, tmp_path):
    work = pickle.loads(pickle.dumps(work))  # as a worker gets it
    with work.scratch() as folder:
        (folder / "a.bin").write_bytes(b"\0\xff" * 500)
        work.publish(folder / "a.bin")
        (folder / "index").mkdir()
        for name in ("x", "y"):
            (folder / "index" / name).write_text(name, encoding="utf-8")
        work.publish(folder / "index")
    for _ in range(2):  # as a runner may
        work.write("b.txt", "가나다".encode())
    assert {"a.bin", "b.txt", "index"} <= set(work.names())
    assert work.names() == sorted(work.names())
    assert not any(name.endswith(".tmp") for name in work.names())
    assert [work.exists(name) for name in ("a.bin", "index", "c")] == [True, True, False]
    assert work.read_all(["b.txt"] * 3) == ["가나다".encode()] * 3
    with work.fetch("a.bin") as path:
        assert path.read_bytes() == b"\0\xff" * 500
    with work.fetch("index") as path:
        assert {p.name: p.read_text(encoding="utf-8") for p in path.iterdir()} == {
            "x": "x",
            "y": "y",
        }
    work.move_out({"a.bin": tmp_path / "a", "b.txt": tmp_path / "b"})
    assert (tmp_path / "a").read_bytes() == b"\0\xff" * 500
    assert (tmp_path / "b").read_text(encoding="utf-8") == "가나다"
    remove_work_folder(work)
    assert not work.exists("index")


def test_a_folder_that_cannot_be_written_is_named(tmp_path, bucket):
    (tmp_path / "file").touch()
    for address in (str(tmp_path / "file"), "gs://no-such-bucket/tmp", "nosuchscheme://a"):
        with pytest.raises(ValueError, match=rf"clean\.work_dir = '{address}' cannot be written"):
            new_work_folder(address, tmp_path)


def test_a_worker_that_does_not_see_the_files_says_so(tmp_path):
    work = new_work_folder(None, tmp_path)
    with pytest.raises(ValueError, match=r"set clean\.work_dir to a folder that all workers see"):
        list(cleaned_rows(work, 0, "written"))


def _text(number):
    return f"{chr(0xAC00 + number)}번째 문장은 {chr(0xB000 + number)} 다른 문장과 다르다."


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """Three groups of files with copies and a benchmark text among them."""
    monkeypatch.setattr(sources, "GROUP_BYTES", 1)
    folder = tmp_path / "raw"
    folder.mkdir()
    for start, name in ((0, "a"), (50, "b"), (120, "c")):
        rows = [{"text": _text(i)} for i in range(start, start + 80)]
        text = "".join(json.dumps(row) + "\n" for row in [*rows, {"text": ""}])
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def benchmark_texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    row = {"task": "문답", "split": "test", "text": _text(7)}
    (folder / "a.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return folder


def _clean(tmp_path, path, benchmark_texts, options=(), **settings):
    source = {"kind": "jsonl", "language": "ko", "path": f"{path}/*.jsonl"}
    section = {"sources": [source], "decontaminate_against": ["klue"]} | settings
    config = parse_config({"name": "t", "output_dir": str(tmp_path / "out"), "clean": section})
    folder = tmp_path / "out" / "clean"
    shutil.rmtree(folder, ignore_errors=True)
    clean(config, options, overwrite=False, benchmark_texts=benchmark_texts)
    digest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["digest"]
    files = {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "manifest.json"}
    return files, digest


def test_a_run_in_a_bucket_makes_the_bytes_of_a_local_one(tmp_path, raw, benchmark_texts, bucket):
    """Sources and work folder in a bucket, two worker processes; only the paths shown differ."""
    local, _ = _clean(tmp_path, raw, benchmark_texts)
    bucket.put(f"{raw}/", "corpus/raw/", recursive=True)
    options = ["--direct_num_workers=2"]
    shared, _ = _clean(
        tmp_path, "gs://corpus/raw", benchmark_texts, options, work_dir="gs://corpus/tmp/"
    )
    assert len(local) == 8
    assert shared.keys() == local.keys()
    for name in shared.keys() - {"report.html"}:  # which breaks long paths into lines
        assert shared[name].replace(b"gs://corpus/raw", str(raw).encode()) == local[name]
    assert bucket.find("corpus/tmp") == []


def test_a_run_that_fails_leaves_no_files(tmp_path, raw, benchmark_texts, monkeypatch):
    filesystem = fsspec.filesystem("memory")
    (raw / "b.jsonl").write_text("broken\n", encoding="utf-8")
    with pytest.raises(ValueError, match="malformed_json"):
        _clean(tmp_path, raw, benchmark_texts, strict=True, work_dir="memory://left")
    assert filesystem.find("/left") == []

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(clean_module, "run_pipeline", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _clean(tmp_path, raw, benchmark_texts, work_dir="memory://left")
    assert filesystem.find("/left") == []
