"""The same rows, in whatever form a person's programs write them."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.tasks.files import official_rows, own_rows

ROWS = [
    ("다시는 안 본다", "부정"),
    ("정말 재미있게 보았다, 다시 보고 싶다", "긍정"),
    ('그는 "안녕" 이라고 했다', "긍정"),
    ("첫 줄\n둘째 줄", "부정"),
    ("값; 표 | 칸\t끝", "부정"),
] * 4
PLAIN = [row for row in ROWS if "\n" not in row[0] and "\t" not in row[0]]


def table(rows, delimiter, quoting=csv.QUOTE_MINIMAL, header=("본문", "라벨")):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator="\r\n")
    writer.writerows([header, *rows])
    return file.getvalue()


def read(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return [*own_rows(path)[0]]


def as_rows(rows):
    return [{"본문": text, "라벨": label} for text, label in rows]


@pytest.mark.parametrize("name", ["A.CSV", "a.tsv", "a.txt"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
def test_a_table_in_every_form_has_the_same_rows(tmp_path, name, delimiter, encoding):
    rows = read(tmp_path, name, table(ROWS, delimiter).encode(encoding))
    assert [row for _, row in rows] == as_rows(ROWS)
    assert [number for number, _ in rows] == list(range(1, len(ROWS) + 1))
    said = own_rows(tmp_path / name)[1]
    assert bool(said) == (encoding not in ("utf-8", "utf-8-sig"))


def test_quotation_marks_that_are_none_of_a_table_stay(tmp_path):
    rows = [('"안녕" 이라고 했다', "긍정"), ('그는 "', "부정"), ("보통이다", "부정")] * 3
    text = "".join(f"{a}\t{b}\n" for a, b in [("본문", "라벨"), *rows])
    assert [row for _, row in read(tmp_path, "a.tsv", text)] == as_rows(rows)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_what_spreadsheets_add_is_left_out(tmp_path, end):
    """Empty rows and columns, blanks around the names, a column of numbers without a name."""
    lines = [" 본문 ,라벨\u200b,,"]
    for text, label in PLAIN[:3]:
        quoted = text.replace('"', '""')
        lines += [f'"{quoted}",{label},,', ",,,"]
    rows = read(tmp_path, "a.csv", end.join(lines) + end)
    assert rows == list(zip((1, 3, 5), as_rows(PLAIN[:3]), strict=True))
    assert read(tmp_path, "c.csv", "sep=;" + end + table(PLAIN, ";"))[0] == (1, as_rows(PLAIN)[0])
    numbered = table([(n, *row) for n, row in enumerate(PLAIN)], ",", header=("", "본문", "라벨"))
    assert read(tmp_path, "b.csv", numbered)[0] == (1, {"": "0", **as_rows(PLAIN)[0]})


EVEN = "본문,라벨\n" + "가나,1\n" * 9


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "본문,라벨,라벨\n가나,1,0\n", r"a.csv: 2 columns '라벨'; rename all but one"),
        ("a.csv", f"{EVEN}다라\n", "row 10: 1 cells parted by ','; the first row names 2"),
        ("a.csv", f"{EVEN}다, 라,0\n", "row 10: 3 cells parted by ','"),
        ("a.csv", "첫 문장이다,0\n둘째 문장이다,1\n셋째 문장이다,1\n", "the first row is data"),
        ("a.xlsx", "", r"a task is read from \.csv, .*\.parquet; save it as one"),
        ("a.jsonl", '{"a": 1}\n{"a": 1, "a": 3}', "line 2 is not valid JSON: 'a' is twice"),
        ("a.json", '{"a": 1}', "holds one dict, not a list of rows"),
        ("a.conllu", "# id 1\n1-2\t학교에" + "\t_" * 8 + "\n", "line 2: not every line is a word"),
        ("a.bio", "홍길동\tB-PER\n은\n", "line 2: not every line is a word and a tag"),
        ("a.json", '[{"id": 1, "data": {}, "annotations": []}]', "Label Studio.* as JSON-MIN"),
        ("a.csv", "의견 조사,,\nid,text,n\n1,가,2\n", "first row .의견 조사. names not all of 3"),
        ("a.csv.gz", "", "parquet; unpack it"),
        ("a.bio", "홍 B-PS\n은 O\n서울 에 O\n", "line 3: not every line"),
        ("a.json", '{"data": [{"context": "a", "qas": []}]}', "no paragraphs .KorQuAD 2.0"),
        ("a.jsonl", '{"words": "a b c", "tags": "B-X O"}', "row 1: 2 tags .*, 3 words in 'words'"),
        ("a.bio", "홍\tB-PS\n \tO\n길\tO\n", "line 2: a tag without a word; .* spans"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, name, text)


def test_numbers_of_a_class_label_are_its_names(tmp_path):
    """As `Dataset.to_parquet` writes them; other numbers stay."""
    label = {"names": ["neg", "pos"], "_type": "ClassLabel"}
    tags = {"names": ["O", "B-PER"], "_type": "ClassLabel"}
    for kind in ("List", "Sequence", None):
        lists = {"feature": tags, "_type": kind} if kind else [tags]
        features = {"label": label, "ner_tags": lists, "n": {"dtype": "int64", "_type": "Value"}}
        rows = [{"label": 1, "ner_tags": [1, 0], "n": 1}, {"label": -1, "ner_tags": [], "n": None}]
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        made = pa.Table.from_pylist(rows).replace_schema_metadata(metadata)
        pq.write_table(made, tmp_path / "a.parquet")
        assert [row for _, row in [*own_rows(tmp_path / "a.parquet")[0]]] == [
            {"label": "pos", "ner_tags": ["B-PER", "O"], "n": 1},
            {"label": None, "ner_tags": [], "n": None},
        ]
    made = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text", "text"])
    pq.write_table(made, tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b.parquet: 2 columns 'text'"):
        [*own_rows(tmp_path / "b.parquet")[0]]


SENTENCES = [(["홍길동", "은", "서울"], ["B-PER", "O", "B-LOC"]), (["왔다"], ["O"])]


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.conll", "a.BIO"])
@pytest.mark.parametrize(
    "line",
    ["{word}\t{tag}", "{word} {tag}", "{word} NNP B-NP {tag}", "{word}\t_\t{tag}",
     "{number}\t{word}\t{tag}", "{number}\t{word}\t{tag}\tO"],
)  # fmt: skip
def test_words_and_tags_of_conll(tmp_path, name, line):
    """Two columns or more, numbered or not, with whatever stands between the sentences."""
    blocks = [
        "\n".join(
            line.format(word=word, tag=tag, number=number)
            for number, (word, tag) in enumerate(zip(*sentence, strict=True), start=1)
        )
        for sentence in SENTENCES
    ]
    for text in (
        "\n\n".join(blocks),
        "-DOCSTART- -X- O O\n\n" + "\n\n\n".join(blocks) + "\n\n",
        "\n \n".join(f"# id {n}\n{block}" for n, block in enumerate(blocks)).replace("\n", "\r\n"),
    ):
        rows = [(row["tokens"], row["ner_tags"]) for _, row in read(tmp_path, name, text)]
        assert rows == SENTENCES
    assert "2 sentences, words of column" in own_rows(tmp_path / name)[1][0]


def test_universal_dependencies_have_words_and_parts_of_speech(tmp_path):
    """https://universaldependencies.org/format.html: FORM and UPOS; no ranges, no empty nodes."""
    rest = "\t_\t0\troot\t_\t{}\n"
    text = (
        "# text = 학교에 간다\n1-2\t학교에" + "\t_" * 8 + "\n"
        "1\t학교\t학교\tNOUN\tNNG" + rest.format("SpaceAfter=No") + "2\t에\t에\tADP\tJKB"
        + rest.format("_") + "2.1\t(집)\t_\tNOUN\t_" + rest.format("_")
        + "3\t간다\t가다\tVERB\tVV" + rest.format("_")
    )  # fmt: skip
    for name in ("a.conll", "a.conllu", "a.txt", "a.tsv"):
        (_, row), (_, other) = read(tmp_path, name, f"{text}\n{text}")
        assert row == other
        assert row["tokens"] == row["column 2"] == ["학교", "에", "간다"]
        assert row["ner_tags"] == ["NOUN", "ADP", "VERB"]
        assert row["column 5"] == ["NNG", "JKB", "VV"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_long_file_reads_as_a_short_one(tmp_path, monkeypatch, name):
    """Guesses are made from the first rows; a later row that is another is refused."""
    monkeypatch.setattr("benchmarks.tasks.files._HEAD_ROWS", 3)
    rows = [{"text": f"가 나 {n}", "labels": json.dumps(["a"] * (n % 3))} for n in range(9)]
    expected = [(n, row | {"labels": ["a"] * ((n - 1) % 3)}) for n, row in enumerate(rows, start=1)]
    if name == "a.parquet":
        rows = [row | {"labels": json.loads(row["labels"])} for row in rows]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    elif name == "a.csv":
        cells = [(row["text"], row["labels"].replace('"', '""')) for row in rows]
        text = "".join(f'{text};"{labels}"\n' for text, labels in cells)
        (tmp_path / name).write_text(f"text;labels\n{text}", encoding="cp949")
    else:
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert [*own_rows(tmp_path / name)[0]] == expected
    if name != "a.parquet":
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write("a;none\n" if name == "a.csv" else '{"text": "a", "labels": "none"}\n')
        with pytest.raises(ValueError, match="row 10: 'none' in column 'labels' is no list"):
            [*own_rows(tmp_path / name)[0]]


@pytest.mark.parametrize(
    ("words", "tags"),
    [
        ("민수가 시장 간다", "B-PER B-LOC O"),
        ("['민수가', '시장', '간다']", "['B-PER', 'B-LOC', 'O']"),
        ('["민수가", "시장", "간다"]', '["B-PER", "B-LOC", "O"]'),
        ("['민수가' '시장'\n '간다']", "['B-PER' 'B-LOC' 'O']"),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_lists_that_were_written_as_text_are_lists(tmp_path, name, words, tags):
    """As KLUE's tables, pandas of lists, JSON, and pandas of NumPy arrays write them."""
    rows = [{"words": words, "tags": tags, "note": "[1] 한 줄"}] * 3
    if name.endswith("l"):
        text = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        delimiter = "," if "csv" in name else "\t"
        text = table([[*row.values()] for row in rows], delimiter, header=rows[0])
    expected = {"words": ["민수가", "시장", "간다"], "tags": ["B-PER", "B-LOC", "O"]}
    assert [row for _, row in read(tmp_path, name, text)] == [rows[0] | expected] * 3


@pytest.mark.parametrize("orient", ["records", "split", "index", "columns", "table"])
def test_a_table_of_pandas_in_every_orient(tmp_path, orient):
    """pandas.DataFrame.to_json; a list in `data` is also what AI Hub writes."""
    rows, names = as_rows(PLAIN), ["본문", "라벨"]
    value = {
        "records": rows,
        "split": {
            "columns": names,
            "index": [*range(len(rows))],
            "data": [[*r.values()] for r in rows],
        },
        "index": {str(n): row for n, row in enumerate(rows)},
        "columns": {name: {str(n): row[name] for n, row in enumerate(rows)} for name in names},
        "table": {"schema": {"fields": []}, "data": rows},
    }[orient]
    text = json.dumps(value, ensure_ascii=False)
    assert [row for _, row in read(tmp_path, "a.json", text)] == rows
    if orient == "records":  # under a name, and with marks and commas that should not be there
        assert [row for _, row in read(tmp_path, "a.json", json.dumps({"rows": rows}))] == rows
        assert [row for _, row in read(tmp_path, "a.json", text[:-1] + ",\n]\n")] == rows
        lines = "".join(f"\ufeff{json.dumps(row)},\n" for row in rows)
        assert [row for _, row in read(tmp_path, "a.jsonl", lines)] == rows


def test_parquet_whose_features_cannot_be_read_has_its_columns(tmp_path, caplog):
    names = {"names": ["neg", "pos"], "_type": "ClassLabel"}
    text = {"dtype": "string", "_type": "Value"}

    def rows_of(features):
        info = json.dumps({"info": {"features": features}}) if features else "{"
        made = pa.Table.from_pylist([{"text": "가", "label": 2}])
        pq.write_table(made.replace_schema_metadata({"huggingface": info}), tmp_path / "a.parquet")
        return [*own_rows(tmp_path / "a.parquet")[0]]

    for features, message in [(None, "property name"), ({"label": {"_type": "Later"}}, "Later")]:
        assert rows_of(features) == [(1, {"text": "가", "label": 2})]
        assert message in caplog.text
    with pytest.raises(ValueError, match=r"a\.parquet row 1: .*write the labels as text"):
        rows_of({"text": text, "label": names})


def test_columns_of_conll_whatever_they_hold(tmp_path):
    """Any column may be that of the tags, but in a table of another name."""
    (_, row), *_ = read(tmp_path, "a.conll", "1\t나\t나\tPRON\tx\n2\t간다\t가다\tVERB\ty\n\n" * 2)
    assert [*row] == [f"column {n}" for n in range(1, 6)]
    rows = [row for _, row in read(tmp_path, "a.conll", "나\tPRON\n간다\tVERB\n\n비\tNOUN\n")]
    expected = [(["나", "간다"], ["PRON", "VERB"]), (["비"], ["NOUN"])]
    assert [(row["tokens"], row["ner_tags"]) for row in rows] == expected
    ((_, row),) = read(tmp_path, "a.conll", "1\u00a0000 B-QT\n원\tI-QT\n\n")
    assert row["tokens"] == ["1\u00a0000", "원"]  # a no-break space is within a word
    sizes = [row for _, row in read(tmp_path, "a.tsv", "item\tsize\nshirt\tXL-S\nhat\tXL-M\n")]
    assert sizes == [{"item": "shirt", "size": "XL-S"}, {"item": "hat", "size": "XL-M"}]


def test_blank_last_lines_and_cells_as_long_as_documents_are_no_fault(tmp_path):
    table, long = tmp_path / "rows.tsv", tmp_path / "rows.csv"
    table.write_text("a\tb\n1\t\n\n\r\n", encoding="utf-8")
    assert list(official_rows(table, (), {}, (), False)) == [(1, {"a": "1", "b": ""})]
    long.write_text(f"a\n{'가' * 200_000}\n", encoding="utf-8")
    assert [len(row["a"]) for _, row in official_rows(long, (), {}, (), False)] == [200_000]
