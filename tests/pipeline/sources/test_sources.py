"""Globs, order, ids and how files are dealt out."""

import pytest

from electrify.config.clean import Source
from pipeline.sources.files import GROUP_BYTES, expand_sources, group_files
from pipeline.sources.input_file import InputFile, document_id
from pipeline.sources.raw import Raw
from pipeline.sources.readers import read_file


def _source(path):
    return Source(kind="text", language="ko", path=str(path))


def test_files_come_sorted_by_source_then_path(tmp_path):
    for name in ("b/2.txt", "b/1[0].txt", "a/1.txt", "a/sub.txt/3.txt", "other.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("글")
    files = expand_sources([_source(tmp_path / "b/*"), _source(tmp_path / "**/*.txt")])
    found = [(f.source_index, f.file_index, f.path.removeprefix(f"{tmp_path}/")) for f in files]
    assert found == [
        (0, 0, "b/1[0].txt"),
        (0, 1, "b/2.txt"),
        (1, 0, "a/1.txt"),
        (1, 1, "a/sub.txt/3.txt"),
        (1, 2, "b/1[0].txt"),
        (1, 3, "b/2.txt"),
    ]
    assert {f.num_bytes for f in files} == {3}
    assert len(expand_sources([_source(tmp_path / "b/1[0].txt")])) == 1  # a name, no pattern


def test_a_glob_without_files_is_an_error(tmp_path):
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(ValueError, match=r"clean\.sources\[1\]\.path = .*matches no file"):
        expand_sources([_source(__file__), _source(tmp_path / "*.txt")])
    with pytest.raises(ValueError, match=r"clean\.sources\[0\]\.path = 'nope://a'.*listed"):
        expand_sources([_source("nope://a")])
    with pytest.raises(ValueError, match=r"it is a folder: write .*/\*"):
        expand_sources([_source(tmp_path)])


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("a.csv", 'kind = "huggingface"'),
        ("A.TSV", 'kind = "huggingface"'),
        ("a.xlsx", "save the sheet as CSV"),
        ("a.docx", "pandoc"),
        ("a.hwp", "hwp5txt"),
        ("a.pdf", "pdftotext"),
        ("a.zip", "unpack it"),
    ],
)
def test_what_no_kind_reads_is_refused_with_what_to_do(tmp_path, name, advice):
    (tmp_path / "a.txt").write_text("글")
    (tmp_path / name).write_bytes(b"x,y")
    source = _source(tmp_path / "*")
    with pytest.raises(ValueError, match=rf"sources\[0\].*cannot read .*{name}, .*{advice}"):
        expand_sources([source])


def test_a_folder_of_tables_is_read_as_its_refusal_says(tmp_path):
    pytest.importorskip("datasets")
    (tmp_path / "a.csv").write_text('id,text\n가1,"글, 하나"\n', encoding="utf-8")
    source = Source(kind="huggingface", language="ko", path=str(tmp_path))
    items = [item for f in expand_sources([source]) for item in read_file(f, source, 1000)]
    assert items == [Raw(1, "글, 하나", source_id="가1")]


def test_ids_name_source_file_and_row_and_sort_as_ranks():
    file = InputFile("x/ko.news.jsonl.gz", 5, 3, 12)
    assert document_id(file.first_rank + 7) == "03-00012-000000007"
    assert file.stem == "ko.news"
    assert InputFile("gs://b/ko.txt", 5, 0, 0).stem == "ko"
    places = [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 1), (2, 30, 400)]
    ranks = [InputFile("", 0, s, f).first_rank + row for s, f, row in places]
    assert ranks == sorted(ranks)
    assert [document_id(r) for r in ranks] == sorted(document_id(r) for r in ranks)


def test_groups_keep_the_order_and_are_of_bounded_size():
    sizes = [10, GROUP_BYTES // 2, GROUP_BYTES // 2, 3 * GROUP_BYTES, 1, 2]
    files = [InputFile(f"{i}.txt", size, 0, i) for i, size in enumerate(sizes)]
    groups = group_files(files)
    assert [f for group in groups for f in group.files] == files
    assert [group.index for group in groups] == list(range(len(groups)))
    assert [len(group.files) for group in groups] == [2, 1, 1, 2]
    assert group_files([]) == []
