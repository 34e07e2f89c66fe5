"""The texts of evaluation rows, out of files in the official formats."""

import json
import logging

import pyarrow
import pyarrow.parquet
import pytest

from benchmarks.tasks.texts import check_benchmarks, dump_benchmarks, dump_texts
from electrify.cli import main
from electrify.config.load import parse_config


def _rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _texts(path):
    return [row["text"] for row in _rows(path)]


@pytest.fixture
def data(tmp_path):
    """One file of each format, at different depths, with training files beside them."""
    folder = tmp_path / "data"
    files = {
        "klue/ynat-v1.1_dev.json": [{"guid": "y1", "title": "항구 축제 열린다", "label": "사회"}],
        "klue/ynat-v1.1_train.json": [{"guid": "y2", "title": "배울 제목", "label": "사회"}],
        "klue/klue-sts-v1.1_dev.json": [
            {"guid": "s1", "sentence1": "첫 문장", "sentence2": "둘째 문장", "labels": {"label": 1}}
        ],
        "klue/wos/wos-v1.1_dev.json": [
            {
                "guid": "w",
                "dialogue": [
                    {"role": "user", "text": "숙소를 찾아 주세요", "state": ["숙소-지역-서쪽"]},
                    {"role": "sys", "text": "어느 지역인가요?"},
                ],
            }
        ],
        "squad/dev-v1.1.json": {
            "version": "1.1",
            "data": [
                {
                    "title": "Harbours",
                    "paragraphs": [
                        {
                            "context": "A context.",
                            "qas": [
                                {"id": "q1", "question": "A question?", "answers": [{"text": "A"}]},
                                {"id": "q2", "question": "Another one?", "answers": []},
                            ],
                        }
                    ],
                }
            ],
        },
        "squad/train-v1.1.json": {"data": [{"paragraphs": [{"context": "To learn.", "qas": []}]}]},
    }
    plain = {
        "klue/klue-dp-v1.1_dev.tsv": (
            "## header\n\n## id-1\t나무가 자란다.\n1\t나무가\t나무 가\tNNG+JKS\t2\tNP_SBJ\n"
            "2\t자란다.\t자라 ㄴ다 .\tVV+EF+SF\t0\tVP\n\n"
        ),
        "GLUE/CoLA/dev.tsv": "x1\t1\t\tThe boat sank.\nx2\t0\t*\tBoat the sank.\n",
        "GLUE/CoLA/test.tsv": "index\tsentence\n0\tUnseen boats float.\n",
        "GLUE/CoLA/train.tsv": "x3\t1\t\tTo be learnt.\n",
        "nsmc/ratings_test.txt": "id\tdocument\tlabel\n1\t재밌게 봤다\t1\n2\t\t0\n",
    }
    for name, value in files.items():
        plain[name] = json.dumps(value, ensure_ascii=False)
    for name, text in plain.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


def test_suites_tasks_and_files_together(data, tmp_path):
    own = tmp_path / "own.jsonl"
    own.write_text('{"a": "One text", "b": {"c": ["deep"]}, "n": 5}\n', encoding="utf-8")
    out = tmp_path / "texts"
    out.mkdir()
    (out / "glue-rte.jsonl").write_text("of an earlier config")
    names = ("klue-ynat", "klue-sts", "klue-dp", "klue-wos", "glue-cola", "squad-1.1")
    paths = dump_texts((*names, "korean-nsmc", str(own)), [data], out)
    assert {path.name.removesuffix(".jsonl"): _texts(path) for path in paths} == {
        "klue-ynat": ["항구 축제 열린다"],
        "klue-sts": ["첫 문장", "둘째 문장"],
        "klue-dp": ["나무가 자란다."],
        "klue-wos": ["숙소를 찾아 주세요", "어느 지역인가요?"],
        "glue-cola": ["The boat sank.", "Boat the sank.", "Unseen boats float."],
        "squad-1.1": ["A context.", "A question?", "Another one?"],
        "korean-nsmc": ["재밌게 봤다"],
        "own.jsonl": ["One text", "deep"],
    }
    assert sorted(out.iterdir()) == sorted(paths)
    cola = _rows(out / "glue-cola.jsonl")
    assert [row["split"] for row in cola] == ["dev", "dev", "test"]
    assert {row["task"] for row in cola} == {"glue-cola"}


def test_the_texts_of_a_parquet_file(tmp_path):
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["one", "two"], "number": [1, 2]}), path)
    (dumped,) = dump_texts((str(path),), [], tmp_path / "texts")
    assert set(_texts(dumped)) == {"one", "two"}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("klu",), "'klu' is no suite, task or file; did you mean klue,"),
        (("glue-colla",), "did you mean glue-cola,"),
        (("none/texts.txt",), "'none/texts.txt' is no suite"),
        (("korean-korquad",), "looked for KorQuAD_v1.0_dev.json; there is: GLUE/CoLA/dev.tsv"),
        (("glue-sst2",), "no evaluation file of 'glue-sst2'"),
        (("klue",), "no evaluation file of 'klue-nli', 'klue-ner', 'klue-re', 'klue-mrc' below"),
        (("klue",), 'name the tasks that are: ["klue-ynat", "klue-sts", "klue-dp", "klue-wos"]'),
        (("empty.txt",), "there is no text in empty.txt"),
    ],
)
def test_what_is_not_there_is_named(data, tmp_path, monkeypatch, names, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(ValueError) as error:  # noqa: PT011
        dump_texts(names, [data], tmp_path / "texts")
    assert said in str(error.value)


def test_of_several_folders_the_first_that_has_a_task_is_read(data, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("ynat-v1.1_dev.json", "klue-nli-v1.1_dev.json"):
        (other / name).write_text(
            json.dumps([{"title": "다른 제목", "premise": "가", "hypothesis": "나"}])
        )
    paths = dump_texts(("klue-ynat", "klue-nli"), [data, other], tmp_path / "texts")
    assert [_texts(path) for path in paths] == [["항구 축제 열린다"], ["가", "나"]]


def test_the_config_says_what_and_where(data, tmp_path):
    clean = {"sources": [{"kind": "text", "language": "ko", "path": "x"}]}
    config = {"name": "test", "output_dir": str(tmp_path / "out"), "clean": clean}
    assert dump_benchmarks(parse_config(config)) is None
    clean["decontaminate_against"] = ["korean-nsmc"]
    clean["decontaminate_data_dir"] = str(data)
    check_benchmarks(parse_config(config))
    folder = dump_benchmarks(parse_config(config))
    assert folder == tmp_path / "out" / "benchmark-texts"
    assert [path.name for path in folder.iterdir()] == ["korean-nsmc.jsonl"]
    clean["decontaminate_against"] = ["korean"]
    with pytest.raises(ValueError, match="no evaluation file of 'korean-naver-ner'"):
        check_benchmarks(parse_config(config))
    assert [path.name for path in folder.iterdir()] == ["korean-nsmc.jsonl"]


def test_of_a_suite_the_hub_is_searched_for_what_it_has(caplog, monkeypatch):
    """It has no Naver NER, which is no fault of a config that names the suite."""
    monkeypatch.setattr(logging.getLogger("electrify"), "propagate", True)
    clean = {
        "sources": [{"kind": "text", "language": "ko", "path": "x"}],
        "decontaminate_against": ["korean"],
        "decontaminate_data_dir": "hub",
    }
    check_benchmarks(parse_config({"name": "test", "output_dir": "out", "clean": clean}))
    assert "the hub does not have korean-naver-ner, whose texts stay in the corpus" in caplog.text
    assert "searched are korean-nsmc, korean-paws-x" in caplog.text


@pytest.mark.parametrize("verb", ["validate", "clean"])
def test_missing_files_are_named_before_any_work(data, tmp_path, capsys, verb):
    (tmp_path / "a.txt").write_text("글 하나")
    against = f'clean.decontaminate_data_dir="{data}"'
    words = [
        *("--set", f'output_dir="{tmp_path / "out"}"', "--set", against),
        *("--set", 'clean.decontaminate_against=["klue"]'),
    ]
    assert main([verb, "configs/demo.toml", *words]) == 1
    assert "no evaluation file of 'klue-nli', 'klue-ner'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
