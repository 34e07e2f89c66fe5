"""Members of archives are read like the files that they are."""

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from electrify.config.clean import Source
from pipeline.init.survey import survey
from pipeline.sources import stored
from pipeline.sources.files import batch_files, expand_sources, fingerprints
from pipeline.sources.input_file import Fault, Raw
from pipeline.sources.lines import head_of
from pipeline.sources.readers import read_file
from pipeline.sources.stored import list_members, member_mark
from tests.pipeline.sources.reading import read_source, source_of

TEXTS = [
    f"국회는 오늘 본회의를 열어 새해 예산안 {number}건을 처리했다고 밝혔다." for number in range(6)
]


def nikl(texts: list[str]) -> str:
    """A file as the National Institute of Korean Language delivers it."""
    documents = [{"id": f"N.{n}", "paragraph": [{"form": text}]} for n, text in enumerate(texts)]
    return json.dumps({"id": "NWRW", "document": documents}, ensure_ascii=False, indent=1)


FILES = {
    "말뭉치/a.json": nikl(TEXTS[:3]),
    "말뭉치/b.json": nikl(TEXTS[3:]),
    "말뭉치/": "",
    "__MACOSX/말뭉치/._a.json": "\0",
    "읽기.pdf": "%PDF",
    "비었음.json": "",
}
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


def pack(path: Path, files: Mapping[str, str | bytes]) -> Path:
    """An archive of files, or folders, as its ending says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            for name, text in files.items():
                made.writestr(name, text)
        return path
    unpacked = path.with_name("unpacked.tar") if path.suffix == ".zst" else path
    packing = "" if path.suffix in (".tar", ".zst") else path.suffix[1:].replace("tgz", "gz")
    with tarfile.open(unpacked, f"w:{packing}") as tar:  # type: ignore[call-overload]
        for name, text in files.items():
            info = tarfile.TarInfo(f"./{name}")
            data = text.encode() if isinstance(text, str) else text
            info.size, info.type = len(data), tarfile.DIRTYPE if name[-1] == "/" else info.type
            tar.addfile(info, io.BytesIO(data))
    if path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(unpacked.read_bytes())
        unpacked.unlink()
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two files of JSON in folders, beside others that no source of JSON reads."""
    return pack(tmp_path / "신문.zip", FILES)


def source_in(path: object) -> Source:
    return source_of("jsonl", path, text_field="document[].paragraph.form")


def texts_of(source: Source) -> list[str]:
    items = read_source(source)
    assert all(isinstance(item, Raw) for item in items)
    return [item.text for item in items if isinstance(item, Raw)]


def test_an_archive_is_the_files_of_the_kind_in_it(archive, tmp_path):
    assert texts_of(source_in(archive)) == TEXTS
    assert texts_of(source_in(f"{archive}::*/b.json")) == TEXTS[3:]
    assert texts_of(source_in(f"{tmp_path}/*.zip::*.json")) == TEXTS
    (tmp_path / "c.json").write_text(nikl(["앞에 서는 글"]), encoding="utf-8")
    assert texts_of(source_in(f"{tmp_path}/*")) == ["앞에 서는 글", *TEXTS]
    with pytest.raises(ValueError, match=r"holds no file of kind = 'csv'; it holds \.json, \.pdf"):
        expand_sources([source_of("csv", archive)])


@pytest.mark.parametrize("ending", TARS)
def test_a_tar_is_read_as_a_zip_of_the_same_files_is(ending, archive, tmp_path):
    path = pack(tmp_path / f"[a]{ending}", FILES)
    assert texts_of(source_in(path)) == TEXTS
    assert texts_of(source_in(f"{path}::*/b.json")) == TEXTS[3:]
    assert [n for _, n in list_members(str(path))] == [n for _, n in list_members(str(archive))]
    before = fingerprints(expand_sources([source_in(path)]))
    pack(path, FILES | {"말뭉치/a.json": nikl(["다른 글"])})
    assert texts_of(source_in(path))[0] == "다른 글"
    assert not {*before.values()} & {*fingerprints(expand_sources([source_in(path)])).values()}


def test_the_members_of_a_tar_come_in_their_order_and_the_later_of_one_name_counts(tmp_path):
    path = pack(tmp_path / "a.tar.gz", {f"{n}.json": nikl([f"{n} 번째 글"]) for n in (2, 1, 3)})
    assert texts_of(source_in(path)) == ["2 번째 글", "1 번째 글", "3 번째 글"]
    plain = pack(tmp_path / "b.tar", {"a.json": nikl(["앞의 글"]), "b.json": nikl(["가운데 글"])})
    with tarfile.open(plain, "a") as tar:
        new = plain.with_name("new.json")
        new.write_text(nikl(["뒤의 글"]), encoding="utf-8")
        tar.add(new, "a.json")
    assert texts_of(source_in(plain)) == ["가운데 글", "뒤의 글"]


def test_a_packed_tar_is_one_batch_and_is_unpacked_twice_at_most(tmp_path, monkeypatch):
    texts = [os.urandom(400_000).hex() for _ in range(40)]
    path = pack(tmp_path / "a.tar.gz", {f"{n}.txt": text for n, text in enumerate(texts)})
    files = expand_sources([source := source_of("text", path, document="file")])
    assert [len(batch.files) for batch in batch_files(files)] == [40]
    starts = []
    start = stored._Unpacked._start
    monkeypatch.setattr(stored._Unpacked, "_start", lambda self: [starts.append(1), start(self)])
    stored._listed.cache_clear()
    heads = [(head_of(file), *read_file(file, source, 10**6)) for file in files]
    assert [item.text for _, item in heads if isinstance(item, Raw)] == texts
    assert len(starts) == 2


def test_a_tar_at_an_address_is_read_alike(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    for ending in (".tar", ".tar.xz"):
        data = pack(tmp_path / f"a{ending}", FILES).read_bytes()
        fsspec.filesystem("memory").pipe(f"/c/a{ending}", data)
        assert texts_of(source_in(f"memory://c/a{ending}")) == TEXTS


def test_links_devices_and_holes_of_a_tar_are_counted_and_not_read(tmp_path, caplog):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        data = nikl(TEXTS).encode()
        info = tarfile.TarInfo("../a.json")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.BLKTYPE):
            info = tarfile.TarInfo(f"{kind!r}.json")
            info.type, info.linkname = kind, "../a.json"
            tar.addfile(info)
        info = tarfile.TarInfo("e.json")
        info.pax_headers = {"GNU.sparse.size": "9" * 12, "GNU.sparse.map": "0,1"}
        tar.addfile(info)
    for _ in range(2):
        stored._listed.cache_clear()
        assert texts_of(source_in(path)) == TEXTS
    assert caplog.text.count("a.tar: links and devices are not read (4)") == 1


def test_archives_within_an_archive_are_counted_and_not_read(tmp_path, caplog):
    for ending in ("zip", "tar.gz"):
        pack(tmp_path / f"in.{ending}", {"a.json": nikl(TEXTS)})
    members = {f"{n}/in.zip": (tmp_path / "in.zip").read_bytes() for n in range(2)}
    members |= {"in.tar.gz": (tmp_path / "in.tar.gz").read_bytes(), "b.json": nikl(TEXTS)}
    pack(tmp_path / "out.zip", members)
    for _ in range(2):
        stored._listed.cache_clear()
        assert texts_of(source_in(tmp_path / "out.zip")) == TEXTS
    (message,) = [line for line in caplog.messages if "archives within archives" in line]
    assert "out.zip" in message
    assert "(3)" in message


@pytest.mark.parametrize("ending", TARS)
def test_a_damaged_tar_is_refused(ending, tmp_path):
    path = pack(tmp_path / f"a{ending}", FILES | {"c.txt": os.urandom(40_000).hex()})
    data = path.read_bytes()
    for damaged in (data[: len(data) // 2], data[:1024], b""):
        path.write_bytes(damaged)
        stored._listed.cache_clear()
        with pytest.raises(ValueError, match="is damaged"):
            expand_sources([source_in(path)])
    plain = pack(tmp_path / "b.tar", FILES)
    with plain.open("r+b") as file:
        file.seek(2048)
        file.write(b"garbage" * 400)
    with pytest.raises(ValueError, match="is damaged"):
        expand_sources([source_in(plain)])


def test_init_takes_zips_and_tars_for_sources(tmp_path):
    pack(tmp_path / "a.zip", {"1.json": nikl(TEXTS[:2]), "읽기.pdf": "%PDF"})
    for number in range(2):
        pack(tmp_path / f"b{number}.tar.gz", {f"{number}.json": nikl(TEXTS[2 + number :][:1])})
    pack(tmp_path / "c.tar", {"a/./c.json": nikl(TEXTS[4:5]), "a/d.txt": TEXTS[5]})
    found, unread = survey(tmp_path)
    assert [".pdf" in reason for reason in unread] == [True]
    assert sorted(text for one in found for text in texts_of(one.source)) == TEXTS


def test_names_of_windows_are_korean(tmp_path):
    name, data = "라벨링데이터/글.json", nikl(TEXTS[:1]).encode()
    zipped, tarred = tmp_path / "a.zip", tmp_path / "a.tar"
    stand_in = b"x" * len(name.encode("cp949"))
    with zipfile.ZipFile(zipped, "w") as made:
        made.writestr(stand_in.decode(), data)
    zipped.write_bytes(zipped.read_bytes().replace(stand_in, name.encode("cp949")))
    with tarfile.open(tarred, "w", encoding="cp949", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    for path in (zipped, tarred):
        assert [of for of, _ in list_members(str(path))] == [f"{path}::{name}"]
        assert texts_of(source_in(path)) == TEXTS[:1]


def test_a_changed_member_changes_its_digest_alone(archive):
    before = fingerprints(expand_sources([source_in(archive)]))
    with zipfile.ZipFile(archive, "a") as made:
        made.writestr("말뭉치/c.json", nikl(TEXTS[:1]))
    other = archive.with_name("other.zip")
    archive.rename(other)
    after = fingerprints(expand_sources([source_in(other)]))
    assert len(before) == 2
    assert set(before.values()) < set(after.values())


def test_a_damaged_member_is_a_fault_and_a_damaged_archive_is_refused(archive):
    data = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as made:
        info = made.getinfo("말뭉치/b.json")
    place = info.header_offset + 60
    data[place : place + 40] = bytes(40)
    archive.write_bytes(data)
    items = read_source(source_in(archive))
    assert [item.reason for item in items if isinstance(item, Fault)] == ["unreadable_file"]
    member_mark(f"{archive}::말뭉치/a.json")
    cut = archive.with_name("cut.zip")
    for num_bytes in (len(data) // 2, 10, 0):
        cut.write_bytes(data[:num_bytes])
        with pytest.raises(ValueError, match=r"cut\.zip is damaged"):
            expand_sources([source_in(cut)])


def test_what_unpacks_to_more_than_text_does_and_what_is_encrypted_is_refused(tmp_path, archive):
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a.json", b" " * 200_000_000)
    with pytest.raises(ValueError, match=r"bomb\.zip::a\.json unpacks from .* to 200,000,000"):
        list_members(str(bomb))
    packed = pack(tmp_path / "bomb.tar.gz", {"a.json": b" " * 200_000_000})
    with pytest.raises(ValueError, match=r"bomb\.tar\.gz unpacks from .* which no text does"):
        list_members(str(packed))
    data = bytearray(archive.read_bytes())
    central = data.find(b"PK\x01\x02")
    for place, value, message in ((10, 9, "maybe Deflate64"), (8, 1, "is encrypted")):
        data[central + place] |= value
        archive.with_name("locked.zip").write_bytes(data)
        with pytest.raises(ValueError, match=message):
            list_members(str(archive.with_name("locked.zip")))


def test_init_takes_folders_that_differ_in_an_archive_for_several_sources(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        for number in range(2):
            made.writestr(f"nikl[1]/{number}.json", nikl(TEXTS[:3]))
            made.writestr(f"lines/{number}.json", json.dumps({"본문": TEXTS[number]}))
        made.writestr("z[0].json", json.dumps({"글": TEXTS[5]}))
    found, _ = survey(path)
    assert {one.source.text_field for one in found} == {"document[].paragraph.form", "본문", "글"}
    texts = [text for one in found for text in texts_of(one.source)]
    assert sorted(texts) == sorted([*TEXTS[:3], *TEXTS[:3], *TEXTS[:2], TEXTS[5]])
