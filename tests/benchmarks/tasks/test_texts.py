"""The texts of evaluation rows, out of files in the official formats."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tasks.texts import _warn_once, dump_benchmarks, file_texts, named_texts, write_texts
from electrify.config.load import parse_config
from electrify.stage.folder import write_manifest
from pipeline.decontaminate.index import read_letters
from tests.benchmarks.records import write


def _rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _texts(path):
    return [row["text"] for row in _rows(path)]


@pytest.fixture
def data(tmp_path):
    """One file of each format, at different depths, with training files beside them."""
    folder = tmp_path / "data"
    turns = [
        {"role": "user", "text": "숙소를 찾아 주세요", "state": ["숙소-지역-서쪽"]},
        {"role": "sys", "text": "어느 지역인가요?"},
    ]
    qas = [{"id": "q1", "question": "A question?"}, {"id": "q2", "question": "Another one?"}]
    paragraphs = [{"context": "A context.", "qas": qas}]
    titles = [{"guid": "y1", "title": "항구 축제 열린다"}, {"guid": "y3", "title": ""}]
    files = {
        "klue/ynat-v1.1_dev.json": titles,
        "klue/ynat-v1.1_train.json": [{"guid": "y2", "title": "배울 제목", "label": "사회"}],
        "klue/wos/wos-v1.1_dev.json": [{"guid": "w", "dialogue": turns}],
        "squad/dev-v1.1.json": {"data": [{"title": "Harbours", "paragraphs": paragraphs}]},
        "GLUE/CoLA/dev.tsv": "x1\t1\t\tThe boat sank.\nx2\t0\t*\tBoat the sank.\n",
        "GLUE/CoLA/test.tsv": "index\tsentence\n0\tUnseen boats float.\n",
        "GLUE/CoLA/train.tsv": "x3\t1\t\tTo be learnt.\n",
    }
    for name, content in files.items():
        write(folder / name, content)
    return folder


def test_suites_tasks_and_files_together(data, tmp_path):
    own = tmp_path / "own.jsonl"
    own.write_text('{"a": "One text", "b": {"c": ["deep"]}, "n": 5}\n', encoding="utf-8")
    out = tmp_path / "texts"
    out.mkdir()
    (out / "glue-rte.jsonl").write_text("of an earlier config")
    names = ("klue-ynat", "klue-wos", "glue-cola", "squad-1.1")
    paths = write_texts(named_texts((*names, str(own)), [data]), out)
    assert {path.name.removesuffix(".jsonl"): _texts(path) for path in paths} == {
        "klue-ynat": ["항구 축제 열린다"],
        "klue-wos": ["숙소를 찾아 주세요", "어느 지역인가요?"],
        "glue-cola": ["The boat sank.", "Boat the sank.", "Unseen boats float."],
        "squad-1.1": ["A context.", "A question?", "Another one?"],
        "own.jsonl": ["One text", "deep"],
    }
    assert sorted(out.iterdir()) == sorted(paths)
    cola = _rows(out / "glue-cola.jsonl")
    assert [row["split"] for row in cola] == ["dev", "dev", "test"]
    assert {row["task"] for row in cola} == {"glue-cola"}


def test_files_of_a_pattern_keep_their_texts_apart(tmp_path):
    for folder in ("x", "y"):
        write(tmp_path / folder / "a" / "b" / "test.txt", f"A text of {folder}.\n")
    write(tmp_path / "z.txt" / "inner.txt", "no file of the pattern\n")
    named = {"*/a/b/test.txt": {"x-a-b-test.txt", "y-a-b-test.txt"}, "x/a/b/*": {"test.txt"}}
    for pattern, names in named.items():
        texts = named_texts([str(tmp_path / pattern)], [])
        assert texts.keys() == names
        assert all(len(rows) == 1 for rows in texts.values())
        paths = write_texts(texts, tmp_path / "out")
        assert {path.parent for path in paths} == {tmp_path / "out"}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("klu",), "'klu' is no suite, task or file; did you mean klue,"),
        (("glue-colla",), "did you mean glue-cola,"),
        (("none/texts.txt",), "'none/texts.txt' is no suite"),
        (("korean-korquad",), "; put KorQuAD_v1.0_dev.json there"),
        (("klue",), "'klue-ner', 'klue-re', 'klue-dp', 'klue-mrc' below"),
        (("klue",), 'name the tasks that are there: ["klue-ynat", "klue-wos"]'),
        (("empty.txt",), "there is no text in empty.txt"),
    ],
)
def test_what_is_not_there_is_named(data, tmp_path, monkeypatch, names, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(ValueError) as error:  # noqa: PT011
        write_texts(named_texts(names, [data]), tmp_path / "texts")
    assert said in str(error.value)


def test_what_is_scored_is_looked_for_unless_something_else_is_named(
    data, tmp_path, monkeypatch, caplog
):
    """Of own tasks the rows that are held out alone: the others may be learnt."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{n}번 손님이 주문을 취소했다,{'취소' if n % 2 else '주문'}" for n in range(20)]
    write(tmp_path / "own.csv", "\n".join(["text,label", *rows]))
    raw: dict[str, Any] = {
        "name": "x",
        "output_dir": "out",
        "clean": {"sources": [{"kind": "text", "language": "ko", "path": "x.txt"}]},
        "evaluate": {
            "tasks": ["klue-ynat"],
            "own_tasks": [{"train": "own.csv"}],
            "data_dir": str(data),
        },
    }
    config = parse_config(raw)
    folder = dump_benchmarks(config)
    assert folder == Path("out/benchmark-texts")
    assert _texts(folder / "klue-ynat.jsonl") == ["항구 축제 열린다"]
    assert 2 <= len(_texts(folder / "own.jsonl")) <= 6
    Path("out/clean").mkdir()  # a corpus that is finished stays
    _warn_once.cache_clear()
    for compared, left in (([], "klue-ynat, own"), (["klue-ynat"], "own"), (None, None)):
        counts = {"compared_with": compared} if compared is not None else {}  # of an older version
        write_manifest(Path("out/clean"), {"files": {}, "counts": counts})
        assert dump_benchmarks(config) is None
        warned, _ = caplog.text, caplog.clear()
        assert (f"not compared with {left}, and" in warned) if left else not warned
    assert dump_benchmarks(config, overwrite=True) == folder  # it is made again, in the same way
    for named in ([], ["klue-wos"]):
        raw["clean"]["decontaminate_against"] = named
        assert not parse_config(raw).removes_scored_rows
        folder = dump_benchmarks(parse_config(raw))
        assert bool(folder) == bool(named)
    assert [path.name for path in Path("out/benchmark-texts").iterdir()] == ["klue-wos.jsonl"]
    raw["clean"].pop("decontaminate_against")
    assert parse_config(raw | {"evaluate": {"suites": ["fairness"]}}).removes_scored_rows
    raw["evaluate"]["data_dir"], raw["output_dir"] = "none", "other"
    with pytest.raises(ValueError, match=r"`clean\.decontaminate_against=\[\]` leaves that out"):
        dump_benchmarks(parse_config(raw))


# Files of the user's own.

SENTENCES = [
    "화가가 시장 골목에서 슬픈 노래를 불렀다",
    "The old lighthouse at the harbour blinks three times",
    "농부가 강가에서 커다란 그림을 그렸다",
]
WORDS = [sentence.split() for sentence in SENTENCES]


def _columns(line, before=""):
    """A word a line with what `line` puts beside it, and a blank line behind each sentence."""
    blocks = [
        "".join(line.format(n=n, word=word) + "\n" for n, word in enumerate(words, start=1))
        for words in WORDS
    ]
    return "\n".join(before + block for block in blocks)


PARAGRAPHS = [{"context": text, "qas": []} for text in SENTENCES]
SQUAD = {"version": "1.0", "data": [{"title": "항구", "paragraphs": PARAGRAPHS}]}
FORMS = {
    "tokens.jsonl": "\n".join(json.dumps({"tokens": w, "ner_tags": ["O"] * len(w)}) for w in WORDS),
    "list-a-line.jsonl": "[\n" + ",\n".join(json.dumps({"s": s}) for s in SENTENCES) + "\n]",
    "pretty.json": json.dumps(SQUAD, indent=4, ensure_ascii=False),
    "entities.jsonl": "\n".join(json.dumps({"s": s.replace(" ", "&nbsp;")}) for s in SENTENCES),
    "tags.txt": _columns("{word}\tB-PER"),
    "universal.conllu": _columns("{n}\t{word}\t{word}\tNOUN\tNN\t_\t0\tnsubj\t_\t_", "# id = 1\n"),
    "letters.tsv": "\n\n".join(
        "\n".join(f"{letter}\tO" for letter in sentence) for sentence in SENTENCES
    ),
    "comments.txt": "\n\n".join(f"## id-1\t{s}\n1\t{s.split()[0]}\tNNG\t0\tVP" for s in SENTENCES),
    "quoted.tsv": "text\tn\n" + "".join(f'"{s.replace(" ", chr(10))}"\t1\n' for s in SENTENCES),
    "semicolons.CSV": "id;text\n" + "".join(f"{i};{s}\n" for i, s in enumerate(SENTENCES)),
    "ratings.txt": "id\tdocument\tlabel\n1\t재밌다\t1\n"
    + "".join(f"{i}\t{s}\t0\n" for i, s in enumerate(SENTENCES)),
    "lines.txt": "\n".join(SENTENCES),
}


def _letters(texts):
    return {read_letters(text)[0].tobytes() for text in texts}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "NFD"])
def test_every_sentence_of_a_file_is_found(tmp_path, name, encoding):
    text = FORMS[name]
    if encoding == "NFD":
        text, encoding = unicodedata.normalize("NFD", text), "utf-8-sig"
    (tmp_path / name).write_bytes(text.encode(encoding))
    assert _letters(SENTENCES) <= _letters(file_texts(tmp_path / name))


def test_names_of_columns_and_of_classes_are_no_texts(tmp_path):
    classes = "아주 긍정적인 글", "아주 부정적인 글"
    rows = [(f"{SENTENCES[0]} {n}", classes[n % 2]) for n in range(40)]
    table = "본문의 내용,분류의 이름\n" + "".join(f"{text},{label}\n" for text, label in rows)
    lines = "\n".join(json.dumps({"text": text, "label": label}) for text, label in rows)
    for name, written in {"a.csv": table, "a.jsonl": lines}.items():
        (tmp_path / name).write_text(written)
        assert [*file_texts(tmp_path / name)] == [text for text, _ in rows]


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "a.json"
    for data in (b'{"text": "a', b'{"a": 1}\n{"b": \n'):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.json"):
            list(file_texts(path))
    path = tmp_path / "a.txt"
    path.write_bytes(SENTENCES[0].encode() * 50 + b"\n" + SENTENCES[0].encode()[:-1])
    with pytest.raises(ValueError, match=r"a\.txt: line 2 is not text in utf-8"):
        list(file_texts(path))
