"""What a folder of unknown text is taken for, and how near the estimates come."""

import gzip
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from electrify.stage.folder import write_manifest
from pipeline.init.survey import survey
from pipeline.sources.files import expand_sources
from tests.pipeline.builders import ENGLISH, KOREAN, RUSSIAN
from tests.pipeline.sources.reading import read_source, table_of, write_files, write_rows, write_zip

GERMAN = "Größe, Qualität und Straßen waren schön, aber die Gäste kamen über die Brücke."
JAPANESE = "昨日は友達と公園へ行きました。とても楽しかったです。"


def json_lines(texts, field="text"):
    rows = ({"id": n, field: text, "url": "https://a.b"} for n, text in enumerate(texts))
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])
def test_the_text_is_the_field_with_most_letters_and_is_read_by_the_source(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    url = f"https://example.org/{'a' * 80}"
    write_rows(path, kind, [{"본문": KOREAN, "제목": f"제목 {i}", "url": url} for i in range(30)])
    (found,), unread = survey(tmp_path)
    assert (found.source.kind, found.source.text_field) == (kind, "본문")
    assert (found.source.language, unread) == ("ko", [])
    assert (found.amount.num_documents, found.amount.num_bytes) == (30, 30 * len(KOREAN.encode()))
    assert [item.text for item in read_source(found.source)] == [KOREAN] * 30


def test_a_parquet_file_with_a_date_that_python_has_not(tmp_path):
    far = pa.array([10**7], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"when": far, "글": [KOREAN]}), tmp_path / "a.parquet")
    ((found,), _) = survey(tmp_path)
    assert (found.source.text_field, found.fields) == ("글", ("when", "글"))


def test_files_of_one_kind_are_one_source(tmp_path):
    files = {f"{name}.jsonl": json_lines([KOREAN] * 5) for name in ("b", "a", "sub/c")}
    write_files(tmp_path, files | {"a.txt": f"{KOREAN}\n\n{KOREAN}\n"})
    found, unread = survey(tmp_path)
    kinds = [(s.source.kind, s.source.path.removeprefix(f"{tmp_path}/")) for s in found]
    assert (kinds, unread) == ([("jsonl", "**/*.jsonl"), ("text", "a.txt")], [])


@pytest.mark.parametrize("state", ["", ".partial"])
def test_the_runs_in_a_folder_are_no_text_of_it(tmp_path, monkeypatch, state):
    """The glob that `init` writes finds the run's own output, too."""
    write_files(tmp_path, {"a/x.txt": KOREAN, "b/manifest.json": "{}", "b/y.txt": KOREAN})
    made = {f"out/run/vocab{state}/vocab.txt": KOREAN, "out/run/benchmark-texts/a.jsonl": "{}"}
    monkeypatch.chdir(write_files(tmp_path, made))
    if state:
        Path("out/run/vocab.partial/plan.json").touch()
    else:
        write_manifest(Path("out/run/vocab"), {"files": {}})
    ((found,), others) = survey(Path())
    assert (found.source.path, found.num_files, len(others)) == ("./**/*.txt", 2, 1)  # a manifest
    paths = [file.path for file in expand_sources([found.source], "out/run")]
    assert paths == ["a/x.txt", "b/y.txt"]
    within = found.source.model_copy(update={"path": "out/run/vocab*/*.txt"})
    assert len(expand_sources([within], "out/run")) == 1  # it was meant


def _written_text(text, encoding):
    return "\n\n".join(f"{text} {n}" for n in range(9)).encode(encoding)


def _table(column, text):
    return "".join([f"id,{column}\n", *(f"{n},{text} {n}\n" for n in range(9))]).encode()


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize(
    "files",
    [
        {"ru.txt": _written_text(RUSSIAN, "cp1251"), "de.txt": _written_text(GERMAN, "cp1252")},
        {"ko.txt": _written_text(KOREAN, "cp949"), "ja.txt": _written_text(JAPANESE, "cp932")},
        {"x.jsonl": json_lines([KOREAN] * 9), "y.jsonl": json_lines([KOREAN] * 9, "body")},
        {"a.csv": _table("text", KOREAN), "b.csv": _table("본문", KOREAN)},
        {"a.txt": b"\n".join([KOREAN.encode()] * 9), "b.txt": _written_text(KOREAN, "utf-8")},
    ],
    ids=["cyrillic-latin", "korean-japanese", "fields", "columns", "lines-blocks"],
)
def test_each_file_far_below_the_root_is_read_as_if_it_were_alone(tmp_path, form, files):
    alone = []
    for name in files:
        ((found,), _) = survey(write_files(tmp_path / "alone", files) / name)
        alone += [item.text for item in read_source(found.source)]
    root = tmp_path / "in"
    (root / "sub/sub").mkdir(parents=True)
    if form == "folder":
        write_files(root / "sub/sub", files)
    else:
        write_zip(root / "sub/a.zip", {f"sub/{name}": data for name, data in files.items()})
    found, unread = survey(root)
    texts = [item.text for one in found for item in read_source(one.source)]
    assert (sorted(texts), unread) == (sorted(alone), [])


def test_files_that_are_not_examined_beside_others_that_differ_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.init.survey._MAX_EXAMINED", 60)
    files = {f"sub/{n}.jsonl": json_lines([KOREAN], f"field{n}") for n in range(80)}
    found, (line,) = survey(write_files(tmp_path, files))
    assert len({one.source.text_field for one in found}) == len(found) == 60
    assert line.startswith("20 .jsonl")


def test_many_small_files_are_documents_and_a_large_one_is_blocks_or_lines(tmp_path):
    files = {f"[글]/{number}.txt": f"{KOREAN}\n\n{number}" for number in range(40)}
    (small,), _ = survey(write_files(tmp_path, files) / "[글]")
    assert len(read_source(small.source)) == 40
    files = {"blocks.txt": f"{KOREAN}\n{KOREAN}\n\n" * 50, "lines.txt": f"{KOREAN}\n" * 100}
    found = [survey(write_files(tmp_path, files) / name)[0][0] for name in files]
    assert [(f.source.document, f.amount.num_documents) for f in (small, *found)] == [
        *(("file", 40), ("block", 50), ("line", 100))
    ]


def test_amounts_of_a_file_of_which_only_the_head_is_read(tmp_path, monkeypatch):
    texts = [f"{KOREAN} {i % 97}" * (1 + i % 7) for i in range(3_000)]
    data = json_lines(texts)
    write_files(tmp_path, {"a.jsonl": data, "b.jsonl.gz": gzip.compress(data)})
    monkeypatch.setattr("pipeline.init.survey._SAMPLE_BYTES", 30_000)
    found, _ = survey(tmp_path)
    num_bytes = len("".join(texts).encode())
    for source in found:
        amount = source.amount.num_documents, source.amount.num_bytes
        assert amount == pytest.approx((3_000, num_bytes), rel=0.1)


def test_sources_are_named_by_the_folder_or_archive_that_holds_them(tmp_path):
    write_files(tmp_path / "in" / "essays", {f"{number}.txt": KOREAN for number in range(40)})
    talks = {f"a/{number}.json": json.dumps({"text": KOREAN}) for number in range(40)}
    write_zip(tmp_path / "in" / "018.대화.zip", talks)
    found = [one.source.name for one in survey(tmp_path / "in")[0]]
    assert sorted(found) == ["018.대화", "essays"]


def test_what_is_not_read_is_named_with_what_to_do(tmp_path):
    files = {
        "a.hwp": ("x", "1 .hwp: .*hwp5txt"),
        "b.png": ("x", "1 .png: "),
        "names.csv": ("text,label\n", "names.csv: "),
        "blank.jsonl": ('{"text": " "}\n', "blank.jsonl: "),
        "page.xml": ("<a/>", "page.xml: "),
        "broken.parquet": ("none", "n.parquet: damaged"),
        "cut.json": (json.dumps({"data": [{"text": KOREAN}]})[:-9], "cut.json: no JSON objects"),
        "plain.json.gz": ("{}", "plain.json.gz: damaged: BadGzipFile"),
        "twice.jsonl.gz": (gzip.compress(gzip.compress(b"{}")), "twice.*: packed twice: unpack"),
        "data.arrow": ("x", "1 .arrow: .*to_parquet"),
    }
    write_files(tmp_path, {name: data for name, (data, _) in files.items()})
    write_files(tmp_path, {".hidden.txt": "x", "empty.txt": ""})  # are passed over
    found, unread = survey(tmp_path)
    assert found == []
    for _, what in files.values():
        assert any(re.search(what, line) for line in unread), what
    assert len(unread) == len(files)
    with pytest.raises(ValueError, match="no file or folder at none"):
        survey(Path("none"))


def test_each_reason_has_a_line_of_its_own(tmp_path):
    head = "text,label\n"
    write_files(tmp_path, {"a.csv": head, "b.csv": head, "c.csv": "1,2\n3,4\n"})
    first, second = survey(tmp_path)[1]
    assert first == f"{tmp_path}/a.csv and 1 others: no text in it"
    assert second.startswith(f"{tmp_path}/c.csv: ")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
def test_pipes_and_what_is_empty_are_passed_over_and_links_to_nothing_named(tmp_path):
    os.mkfifo(tmp_path / "pipe.zip")
    (tmp_path / "link.zip").symlink_to(tmp_path / "nowhere.zip")
    (tmp_path / "empty.zip").touch()
    (tmp_path / "b.txt").write_text(f"{KOREAN}\n\n{KOREAN}")
    (found,), (unread,) = survey(tmp_path)
    assert found.source.path == f"{tmp_path}/b.txt"
    assert re.search(r"link\.zip: a link to nothing: ", unread)


def _written(
    tmp_path, name, texts, encoding="utf-8", delimiter=",", header=("id", "text", "n"), lines="\n"
):
    """As spreadsheets write a table."""
    rows = ((i, line, i % 2) for i, line in enumerate(texts))
    table = table_of([*([header] if header else []), *rows], delimiter)
    (tmp_path / name).write_bytes(table.replace("\r\n", "\n").replace("\n", lines).encode(encoding))


KOREAN_TEXTS = [f"{KOREAN} 그래서 {i}번째로, 다시 모인다." for i in range(12)]
JAPANESE_TEXTS = [
    f"{i}番目の感想：昨日は友達と公園へ行きました。とても楽しかった。" for i in range(12)
]
CHINESE_TEXTS = [f"第{i}条评论：今天天气很好，我和朋友一起去了公园。" for i in range(12)]
GERMAN_TEXTS = [f"{i}. Bewertung: Größe, Qualität und Straßen waren schön." for i in range(12)]


@pytest.mark.parametrize(
    ("name", "texts", "options"),
    [
        ("a.csv", KOREAN_TEXTS, {"encoding": "cp949"}),
        ("a.csv", KOREAN_TEXTS, {"encoding": "utf-8", "lines": "\r"}),  # "CSV (Macintosh)"
        ("a.txt", KOREAN_TEXTS, {"encoding": "utf-16", "delimiter": "\t"}),  # "Unicode text"
        ("a.csv", KOREAN_TEXTS, {"encoding": "cp949", "header": None}),
        ("a.csv", JAPANESE_TEXTS, {"encoding": "cp932"}),
        ("a.csv", CHINESE_TEXTS, {"encoding": "gb18030"}),
        ("a.csv", GERMAN_TEXTS, {"encoding": "cp1252", "delimiter": ";"}),
    ],
)
def test_tables_of_spreadsheets_of_every_country(tmp_path, name, texts, options):
    _written(tmp_path, name, texts, **options)
    (found,), unread = survey(tmp_path)
    assert unread == []
    assert [item.text for item in read_source(found.source)] == texts
    languages = {"번째로": "ko", "番目": "ja", "评论": "zh", "Größe": "de"}
    assert found.source.language == next(languages[w] for w in languages if w in texts[1])


def test_a_folder_of_two_encodings_is_one_source_where_each_line_is_read_in_its_own(tmp_path):
    for number, encoding in enumerate(["utf-8", "cp949", "utf-8-sig", "utf-16"]):
        _written(tmp_path, f"{number}.csv", KOREAN_TEXTS, encoding)
    (found,), unread = survey(tmp_path)
    assert (found.source.encoding, found.num_files, unread) == ("cp949", 4, [])
    assert [item.text for item in read_source(found.source)] == KOREAN_TEXTS * 4


def test_a_first_row_that_may_be_data_is_asked_about(tmp_path):
    rows = zip(KOREAN_TEXTS[:6], KOREAN_TEXTS[6:], strict=True)
    (tmp_path / "a.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in rows))
    found, (question,) = survey(tmp_path)
    assert found == []
    assert "does its first row name the columns, or is it data?" in question
    assert "columns = ['column1', 'column2']" in question


@pytest.mark.parametrize(
    ("files", "language", "others"),
    [
        ({f"{n}.txt": f"{KOREAN if n % 3 else ENGLISH} {n}" for n in range(90)}, "ko", ("en",)),
        ({"a.jsonl": json_lines([KOREAN] * 80 + [ENGLISH] * 15 + [RUSSIAN])}, "ko", ("en",)),
        ({"a.jsonl": json_lines([KOREAN, ENGLISH, RUSSIAN] * 10)}, "auto", ()),
    ],
    ids=["files", "one file", "many languages"],
)
def test_languages_beside_the_main_one_are_named_or_many_told_by_document(
    tmp_path, monkeypatch, files, language, others
):
    monkeypatch.setattr("pipeline.init.survey._MAX_OTHER_LANGUAGES", 1)
    (found,), unread = survey(write_files(tmp_path, files))
    assert (found.source.language, found.source.other_languages) == (language, others)
    assert unread == []
