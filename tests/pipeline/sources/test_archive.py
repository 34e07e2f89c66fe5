"""Members of zip archives are read like the files that they are."""

import json
import zipfile
from pathlib import Path

import pytest

from electrify.config.clean import Source
from pipeline.init.survey import survey
from pipeline.sources.archive import list_members, member_mark
from pipeline.sources.files import expand_sources, fingerprints
from pipeline.sources.raw import Fault, Raw
from tests.pipeline.sources.reading import read_source, source_of

TEXTS = [
    f"국회는 오늘 본회의를 열어 새해 예산안 {number}건을 처리했다고 밝혔다." for number in range(6)
]


def nikl(texts: list[str]) -> str:
    """A file as the National Institute of Korean Language delivers it."""
    documents = [{"id": f"N.{n}", "paragraph": [{"form": text}]} for n, text in enumerate(texts)]
    return json.dumps({"id": "NWRW", "document": documents}, ensure_ascii=False, indent=1)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two files of JSON in folders, beside others that no source of JSON reads."""
    path = tmp_path / "신문.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("말뭉치/b.json", nikl(TEXTS[3:]))
        made.writestr("말뭉치/a.json", nikl(TEXTS[:3]))
        made.writestr("말뭉치/", "")
        made.writestr("__MACOSX/말뭉치/._a.json", "\0")
        made.writestr("읽기.pdf", "%PDF")
        made.writestr("비었음.json", "")
    return path


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


def test_names_of_windows_are_korean(tmp_path):
    path = tmp_path / "a.zip"
    name = "라벨링데이터/글.json"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("x" * len(name.encode("cp949")), nikl(TEXTS[:1]))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"x" * len(name.encode("cp949")), name.encode("cp949")))
    assert [of.rpartition("::")[2] for of, _ in list_members(str(path))] == [name]
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
    archive.with_name("cut.zip").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"cut\.zip is damaged"):
        expand_sources([source_in(archive.with_name("cut.zip"))])


def test_what_unpacks_to_more_than_text_does_and_what_is_encrypted_is_refused(tmp_path, archive):
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a.json", b" " * 200_000_000)
    with pytest.raises(ValueError, match=r"bomb\.zip::a\.json unpacks from .* to 200,000,000"):
        list_members(str(bomb))
    data = bytearray(archive.read_bytes())
    central = data.find(b"PK\x01\x02")
    data[central + 8] |= 1
    archive.with_name("locked.zip").write_bytes(data)
    with pytest.raises(ValueError, match="is encrypted"):
        list_members(str(archive.with_name("locked.zip")))


def test_init_takes_the_members_for_a_source(archive, tmp_path):
    (found,), unread = survey(tmp_path)
    assert found.source.kind == "jsonl"
    assert (found.source.text_field, found.num_documents) == ("document[].paragraph.form", 6)
    assert texts_of(found.source) == TEXTS
    assert [reason for reason in unread if ".pdf" in reason]
    assert survey(archive)[0][0].source == found.source


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
