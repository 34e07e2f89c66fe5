"""Where pairs come from, and what is said of sources that have none."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.embed.pairs import Pair, read_pairs
from electrify.system.outcome import UserError
from tests.benchmarks.records import write


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "pairs.jsonl",
            '{"anchor": "하나", "positive": "둘"}\n'
            '{"anchor": "셋", "positive": "넷", "negative": "다섯"}\n'
            '{"anchor": "하나", "positive": "둘"}\n',
        ),
        ("pairs.csv", "id,anchor,positive,negative\n1,하나,둘,\n2,셋,넷,다섯\n"),
        ("pairs.tsv", "anchor\tpositive\tnegative\n하나\t둘\t\n셋\t넷\t다섯\n"),
    ],
)
def test_pairs_of_a_table(tmp_path, name, text):
    path = write(tmp_path / name, text)
    assert read_pairs(str(path), []) == [Pair("하나", "둘"), Pair("셋", "넷", "다섯")]


def test_titles_and_paragraphs_of_a_corpus(tmp_path):
    body = "본문의 글이다. " * 200
    texts = [f"제목\n\n{body}", "한 줄뿐", f"{'긴 줄 ' * 50}\n{body}", "제목\n짧다", f'"""\n{body}']
    (tmp_path / "clean").mkdir()
    pq.write_table(pa.table({"text": texts}), tmp_path / "clean" / "documents-00000.parquet")
    assert read_pairs(str(tmp_path), []) == [Pair("제목", body[:1000])]


def nli(label: str, premise: str, hypothesis: str) -> dict[str, str]:
    guid = f"{premise}-{hypothesis}"
    return {"guid": guid, "premise": premise, "hypothesis": hypothesis, "gold_label": label}


def test_triples_of_nli(tmp_path):
    rows = [
        nli("entailment", "가", "가1"),
        nli("neutral", "가", "가2"),
        nli("contradiction", "가", "가3"),
        nli("entailment", "가", "가4"),
        nli("entailment", "나", "나1"),
        nli("contradiction", "다", "다1"),
    ]
    write(tmp_path / "klue-nli-v1.1_train.json", rows)
    expected = [Pair("가", "가1", "가3"), Pair("가", "가4", "가3"), Pair("나", "나1")]
    assert read_pairs("klue-nli", [tmp_path]) == expected


def test_questions_of_the_training_split_alone(tmp_path):
    def paragraph(context: str, **qas: list[str]) -> dict[str, object]:
        return {
            "context": context,
            "qas": [
                {
                    "guid": question,
                    "question": question,
                    "answers": [{"text": text, "answer_start": 0} for text in answers],
                }
                for question, answers in qas.items()
            ],
        }

    def of(*paragraphs: dict[str, object]) -> dict[str, object]:
        return {"data": [{"title": "", "paragraphs": paragraphs}]}

    write(tmp_path / "klue-mrc-v1.1_dev.json", of(paragraph("시험 글", 무엇=["시험"])))
    with pytest.raises(UserError, match=r"no klue-mrc-v1.1_train.json.*are for scoring"):
        read_pairs("klue-mrc", [tmp_path])
    rows = of(paragraph("서울 글", 어디=["서울"], 없다=[]))
    write(tmp_path / "klue-mrc-v1.1_train.json", rows)
    assert read_pairs("klue-mrc", [tmp_path]) == [Pair("어디", "서울 글")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("klue-nly", r"is no file, no folder of a run, no task.*klue-nli"),
        ("klue-ynat", "klue-ynat has no pairs; name a task of reading or of NLI"),
        ("klue-nli", "give --data-dir with the files of klue-nli"),
        (".", "has no clean/documents"),
        ("empty.jsonl", "empty.jsonl has no pair of two texts"),
        ("other.csv", "other.csv row 1: field 'anchor' is missing"),
    ],
)
def test_sources_without_pairs(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "other.csv", "question,paragraph\n하나,둘\n")
    write(tmp_path / "empty.jsonl", json.dumps({"anchor": " ", "positive": "둘"}) + "\n")
    with pytest.raises(UserError, match=message):
        read_pairs(name, [])
