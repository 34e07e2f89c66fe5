"""Members of archives are read like the files that they are."""

import json
import re
import zipfile
from pathlib import Path

import pytest

from electrify.config.clean import Source
from pipeline.sources import stored
from pipeline.sources.files import expand_sources, fingerprints
from pipeline.sources.input_file import Fault
from pipeline.sources.stored import list_members
from tests.pipeline.sources.reading import read_source, reasons_of, source_of, write_zip

TEXTS = [
    f"국회는 오늘 본회의를 열어 새해 예산안 {number}건을 처리했다고 밝혔다." for number in range(6)
]


def rows_of(texts: list[str]) -> str:
    return json.dumps([{"text": text} for text in texts], ensure_ascii=False, indent=1)


FILES = {
    "말뭉치/a.json": rows_of(TEXTS[:3]),
    "말뭉치/b.json": rows_of(TEXTS[3:]),
    "말뭉치/": "",
    "__MACOSX/말뭉치/._a.json": "\0",
    "읽기.pdf": "%PDF",
    "비었음.json": "",
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two files of JSON in folders, beside others that no source of JSON reads."""
    return write_zip(tmp_path / "신문.zip", FILES)


def texts_of(source: Source) -> list[str]:
    return reasons_of(read_source(source))


def test_an_archive_is_the_files_of_the_kind_in_it(archive, tmp_path):
    assert texts_of(source_of("jsonl", archive)) == TEXTS
    assert texts_of(source_of("jsonl", f"{archive}::*/b.json")) == TEXTS[3:]
    assert texts_of(source_of("jsonl", f"{tmp_path}/*.zip::*.json")) == TEXTS
    (tmp_path / "c.json").write_text(rows_of(["앞에 서는 글"]), encoding="utf-8")
    assert texts_of(source_of("jsonl", f"{tmp_path}/*")) == ["앞에 서는 글", *TEXTS]
    with pytest.raises(ValueError, match=r"holds no file of kind = 'csv'; it holds \.json, \.pdf"):
        expand_sources([source_of("csv", archive)])


def test_a_zip_at_an_address_is_read_alike(archive):
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/c/a.zip", archive.read_bytes())
    assert texts_of(source_of("jsonl", "memory://c/a.zip")) == TEXTS


def test_archives_within_an_archive_are_counted_and_not_read(tmp_path, caplog):
    inner = write_zip(tmp_path / "in.zip", {"a.json": rows_of(TEXTS)}).read_bytes()
    archives = {f"{n}/in.zip": inner for n in range(2)}
    write_zip(tmp_path / "out.zip", archives | {"b.json": rows_of(TEXTS)})
    assert texts_of(source_of("jsonl", tmp_path / "out.zip")) == TEXTS
    assert re.search(r"out\.zip.*archives within archives.*\(2\)", caplog.text)


def test_names_of_windows_are_korean(tmp_path):
    name, data = "라벨링데이터/글.json", rows_of(TEXTS[:1]).encode()
    path = tmp_path / "a.zip"
    stand_in = b"x" * len(name.encode("cp949"))
    write_zip(path, {stand_in.decode(): data})
    path.write_bytes(path.read_bytes().replace(stand_in, name.encode("cp949")))
    assert [of for of, _ in list_members(str(path))] == [f"{path}::{name}"]
    assert texts_of(source_of("jsonl", path)) == TEXTS[:1]


def test_a_changed_member_changes_the_digest_of_the_archive(archive, tmp_path):
    (before,) = fingerprints(expand_sources([source_of("jsonl", archive)])).values()
    other = write_zip(archive, {"말뭉치/c.json": rows_of(TEXTS[:1])}).rename(tmp_path / "other.zip")
    assert fingerprints(expand_sources([source_of("jsonl", other)])).keys() == {str(other)}
    assert before not in fingerprints(expand_sources([source_of("jsonl", other)])).values()


def test_a_damaged_member_is_a_fault_and_a_damaged_archive_is_refused(archive):
    data = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as made:
        info = made.getinfo("말뭉치/b.json")
    place = info.header_offset + 60
    data[place : place + 40] = bytes(40)
    archive.write_bytes(data)
    items = read_source(source_of("jsonl", archive))
    assert [item.reason for item in items if isinstance(item, Fault)] == ["unreadable_file"]
    cut = archive.with_name("cut.zip")
    for num_bytes in (len(data) // 2, 10, 0):
        cut.write_bytes(data[:num_bytes])
        with pytest.raises(ValueError, match=r"cut\.zip is damaged"):
            expand_sources([source_of("jsonl", cut)])


def test_what_unpacks_to_more_than_text_does_and_what_is_encrypted_is_refused(
    tmp_path, archive, monkeypatch
):
    bomb = write_zip(tmp_path / "bomb.zip", {"a.json": b" " * 2_000_000})
    assert len(list_members(str(bomb))) == 1
    monkeypatch.setattr(stored, "_SMALL_BYTES", 1_000_000)
    with pytest.raises(ValueError, match=r"bomb\.zip::a\.json unpacks from .* to 2,000,000"):
        list_members(str(bomb))
    data = bytearray(archive.read_bytes())
    central = data.find(b"PK\x01\x02")
    for place, value, message in ((10, 9, "maybe Deflate64"), (8, 1, "is encrypted")):
        data[central + place] |= value
        archive.with_name("locked.zip").write_bytes(data)
        with pytest.raises(ValueError, match=message):
            list_members(str(archive.with_name("locked.zip")))
