"""Globs, order, ids, big files in parts, and how files are dealt out."""

import os
import re
from unicodedata import normalize

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.init.survey import survey
from pipeline.sources.files import (
    FILE_BATCH_BYTES,
    batch_files,
    expand_sources,
    line_parts,
    split_file,
)
from pipeline.sources.input_file import Fault, InputFile, Raw, TooLong, document_id
from pipeline.sources.lines import read_text_lines
from pipeline.sources.readers import read_file
from tests.pipeline.sources.reading import file_of, read_source, source_of, write_files

NFD = normalize("NFD", "글")  # as macOS writes names


def test_files_come_sorted_by_source_then_path(tmp_path):
    names = ("a/1.txt", "a/sub.txt/3.txt", "b/1[0].txt", "b/2.txt")
    write_files(tmp_path, dict.fromkeys([*names[::-1], "other.json"], "글"))
    files = expand_sources([source_of("text", tmp_path / one) for one in ("b/*", "**/*.txt")])
    found = [(f.source_index, f.file_index, f.path, f.num_bytes) for f in files]
    assert found == [
        (source, number, f"{tmp_path}/{name}", 3)
        for source, of_source in enumerate((names[2:], names))
        for number, name in enumerate(of_source)
    ]
    (named,) = expand_sources([source_of("text", tmp_path / "b/1[0].txt")])  # a name, no pattern
    assert named.num_bytes == 3


def test_links_to_files_are_read_and_hidden_files_only_where_they_are_named(tmp_path, caplog):
    """Caches of the hub hold links to their files; macOS and notebooks leave hidden ones."""
    write_files(tmp_path, dict.fromkeys(("a.txt", "._a.txt", "sub/.cache/b.txt"), "글 하나"))
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")

    def found(pattern):
        files = expand_sources([source_of("text", tmp_path / pattern)])
        return [(f.path.removeprefix(f"{tmp_path}/"), f.num_bytes) for f in files]

    assert found("**/*.txt") == [("a.txt", 10), ("link.txt", 10)]
    assert found("**/.cache/*.txt") == [("sub/.cache/b.txt", 10)]
    assert found(".*.txt") == found("._a.txt") == [("._a.txt", 10)]
    (tmp_path / ".#a.txt").symlink_to("user@host.1")  # an editor's lock, a link to nothing
    assert found("*.txt") == [("a.txt", 10), ("link.txt", 10)]
    (tmp_path / "link.txt").unlink()
    (tmp_path / "link.txt").symlink_to(tmp_path / "none")  # as git-annex leaves what is elsewhere
    assert found("*.txt") == [("a.txt", 10)]
    assert re.search(r"warning: .*link\.txt: left out as a link to nothing: .*annex", caplog.text)
    with pytest.raises(ValueError, match="matches no file; it is a link to nothing"):
        found("link.txt")


def test_no_file_behind_a_link_or_in_a_closed_folder_is_left_out(tmp_path, monkeypatch):
    names = ("data/a/x.txt", "elsewhere/y.txt", "elsewhere/z::1.txt")
    write_files(tmp_path, dict.fromkeys(names, "글"))
    (tmp_path / "data/b").symlink_to("../elsewhere")
    (tmp_path / "elsewhere/back").symlink_to("../data")  # a loop
    (tmp_path / "data/a/up").symlink_to("../..")  # to a folder around the root
    expected = [str(tmp_path / "data" / name) for name in ("a/x.txt", "b/y.txt", "b/z::1.txt")]
    for pattern in ("data/**/*.txt", "data/*/*.txt", "data/**"):
        source = source_of("text", tmp_path / pattern)
        assert [file.path for file in expand_sources([source])] == expected
    assert [item.text for item in read_source(source)] == ["글"] * 3
    assert survey(tmp_path / "data")[0][0].num_files == 3
    scandir = os.scandir

    def closed(folder):
        if folder.endswith("/b"):
            raise PermissionError(13, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(ValueError, match=r"cannot be listed: PermissionError.*data/b"):
        expand_sources([source])
    assert len(expand_sources([source_of("text", tmp_path / "data/a*/*.txt")])) == 1
    assert "Permission denied" in survey(tmp_path / "data")[1][0]


@pytest.mark.parametrize(
    ("there", "asked", "words"),
    [
        (os.fsdecode("뉴스.txt".encode("cp949")), "*.txt", "not UTF-8; rename it, for .* convmv"),
        ("folder.txt/a.md", "*.txt", r"clean\.sources\[0\]\.path = .*matches no file"),
        ("a.txt", "", r"it is a folder: write .*/\*"),
        ("a.csv.gz", "a.*", r'sources\[0\].*cannot read .*a\.csv\.gz, .*kind = "csv"'),
        ("b.jsonl.gz.gz", "b.*", r"cannot read .*b\.jsonl\.gz\.gz, packed twice: unpack it once"),
        ("c.tar.zst", "c.*", r"cannot read .*c\.tar\.zst, .*tar xf FILE"),
        ("c.tgz", "c.tgz::*.json", r"c\.tgz is .*tar xf FILE"),
        ("b.hwp", "b.*", r"sources\[0\].*cannot read .*b\.hwp, .*hwp5txt"),
        # a glob that nearly matches is answered with one that does
        ("[1] 글/a.txt", "[1] 글/*.txt", re.escape("/[[]1] 글/*.txt (")),
        (f"{NFD}/a.txt", "글/*.txt", re.escape(f"/{NFD}/*.txt (")),
        ("글/a.txt", f"{NFD}/*.txt", re.escape("/글/*.txt (")),
    ],
)
def test_a_glob_of_no_file_that_can_be_read_is_refused_with_what_to_do(
    there, asked, words, tmp_path
):
    write_files(tmp_path, {there: "x,y"})
    with pytest.raises(ValueError, match=words):
        expand_sources([source_of("text", tmp_path / asked)])
    if "convmv" in words:
        assert "convmv" in survey(tmp_path)[1][0]


def test_ids_name_source_file_and_row_and_sort_as_ranks():
    file = InputFile("x/ko.news.jsonl.gz", 5, 3, 12)
    assert document_id(file.first_rank + 7) == "03-00012-000000007"
    assert file.stem == "ko.news"
    assert InputFile("gs://b/ko.txt", 5, 0, 0).stem == "ko"
    assert InputFile("a.zip::ko.news.jsonl", 5, 0, 0).stem == "ko.news"
    places = [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 1), (2, 30, 400)]
    ranks = [InputFile("", 0, s, f).first_rank + row for s, f, row in places]
    assert ranks == sorted(ranks)
    assert [document_id(r) for r in ranks] == sorted(document_id(r) for r in ranks)


def test_groups_keep_the_order_and_are_of_bounded_size(monkeypatch):
    sizes = [10, FILE_BATCH_BYTES // 2, FILE_BATCH_BYTES // 2, 3 * FILE_BATCH_BYTES, 1, 2]
    files = [InputFile(f"{i}.txt", size, 0, i) for i, size in enumerate(sizes)]
    groups = batch_files(files)
    assert [f for group in groups for f in group.files] == files
    assert [group.index for group in groups] == list(range(len(groups)))
    assert [len(group.files) for group in groups] == [2, 1, 1, 2]
    assert batch_files([]) == []
    # groups times shards, the number of elements that are shuffled, stays linear in the size
    monkeypatch.setattr("pipeline.sources.files.MAX_FILE_BATCHES", 100)
    for num in (50, 4000):
        many = batch_files([InputFile("a.txt", FILE_BATCH_BYTES, 0, i) for i in range(num)])
        assert len(many) == min(num, 100)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 30), max_size=20), st.booleans(), st.integers(1, 60))
def test_parts_give_the_lines_of_the_whole_file_once_and_in_order(
    tmp_path, lengths, ends_with_newline, part_bytes
):
    lines = [bytes([97 + i]) * length for i, length in enumerate(lengths)]
    data = b"\n".join(lines) + b"\n" * ends_with_newline
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    if not data:
        return
    whole = list(read_text_lines(file_of(path), "utf-8", 20))
    parts = line_parts(file_of(path), part_bytes)
    assert sum(part.num_bytes for part in parts) == len(data)
    assert [x for part in parts for x in read_text_lines(part, "utf-8", 20)] == whole
    for offset, line in whole:
        head = line.head if isinstance(line, TooLong) else line
        assert data[offset : offset + len(head)] == head


def test_a_fault_of_a_later_part_is_named_by_its_byte(tmp_path):
    path = tmp_path / "a.jsonl"
    good = b'{"text": "a"}\n'
    path.write_bytes(good * 100 + b"broken\n" + good)
    parts = split_file(file_of(path), source_of(), part_bytes=500)
    items = [(part, item) for part in parts for item in read_file(part, source_of(), 1000)]
    places = [part.where(of.row, of.offset) for part, of in items if isinstance(of, Fault)]
    assert places == [f"{path}: byte {len(good) * 100:,}"]
    assert parts[0].where(3, 28) == f"{path}:3"
    assert parts[1].where(3) == f"{path}: row 3 of part 2 of {len(parts)}"


def test_parquet_in_parts_of_row_groups(tmp_path):
    path = tmp_path / "a.parquet"
    texts = [f"글 {i}" + "가" * 100 for i in range(1000)]
    fields = {
        "text": pa.array(texts, pa.large_string()),
        "source": pa.array([None, "s"] * 500).dictionary_encode(),
        "url": list(range(1000)),  # no text, so not read
        "licence": ["l"] * 1000,
    }
    table = pa.table(fields | {"other": [b"x" * 1000] * 1000})
    pq.write_table(table, path, row_group_size=100, use_dictionary=False, compression="none")
    source = source_of("parquet")
    parts = split_file(file_of(path), source, part_bytes=450_000)  # of all columns
    assert [part.first_row for part in parts] == [0, 300, 600, 900]
    assert [item for part in parts for item in read_file(part, source, 10_000)] == [
        Raw(i + 1, text, "s" if i % 2 else None, None, "l") for i, text in enumerate(texts)
    ]
    assert parts[2].where(650) == f"{path}:650"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.jsonl.gz", source_of()),
        ("a.jsonl", source_of(max_documents=3)),
        ("a.jsonl", source_of(encoding="utf-16")),
        ("a.txt", source_of("text")),
        ("a.csv", source_of("csv")),
        ("a.txt", source_of("text", document="file")),
        ("a.xml", source_of("wikipedia")),
        ("a.wet", source_of("wet")),
    ],
)
def test_what_cannot_be_divided_stays_whole(name, source):
    file = InputFile(name, 1000, 0, 0)
    assert split_file(file, source, part_bytes=10) == [file]
