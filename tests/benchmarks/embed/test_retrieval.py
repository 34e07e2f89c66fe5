"""Ranks and metrics beside references; the suite and `electrify embed` from the command to the
page."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import ndcg_score
from transformers import ElectraForPreTraining

from benchmarks.embed.retrieval import (
    TABLE,
    Score,
    bm25,
    gold_ranks,
    ndcg_at_10,
    recall_at_10,
    terms,
)
from benchmarks.embed.sentences import open_sentence_encoder
from benchmarks.encoder import open_model
from benchmarks.report.report import read_runs, report
from benchmarks.results.predictions import read_predictions
from benchmarks.results.table import read_csv
from electrify.cli import main
from electrify.stage.folder import read_manifest
from tests.benchmarks.conftest import FILLERS, TOPICS, save_electra, text_of
from tests.benchmarks.records import sets, write


def test_metrics_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    scores, gold = rng.normal(size=(50, 30)), rng.integers(0, 30, 50)
    relevance = np.eye(30)[gold]
    ranks = gold_ranks(scores, gold)
    order = np.argsort(-scores, axis=1)
    assert ranks.tolist() == [order[n].tolist().index(g) + 1 for n, g in enumerate(gold)]
    assert ndcg_at_10(ranks).mean() == pytest.approx(ndcg_score(relevance, scores, k=10))
    top = np.take_along_axis(relevance, order[:, :10], axis=1)
    assert recall_at_10(ranks).tolist() == top.sum(axis=1).tolist()
    ties = gold_ranks(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), np.array([0, 2]))
    assert ties.tolist() == [2, 3]  # the right one stands behind


DOCUMENTS = [
    "서울은 대한민국의 수도이다",
    "부산은 항구 도시이다. 부산, 부산",
    "A cat",
    "수도 서울 서울",
]
QUERIES = ["대한민국의 수도는?", "부산 부산", "cat 서울", "없음"]


def brute_force(query: str, document: str) -> float:
    counts = [Counter(terms(text)) for text in DOCUMENTS]
    mean = sum(map(Counter.total, counts)) / len(counts)
    of_document = Counter(terms(document))
    score = 0.0
    for term in terms(query):
        num_with = sum(term in of for of in counts)
        idf = math.log(1 + (len(counts) - num_with + 0.5) / (num_with + 0.5))
        norm = 1.2 * (1 - 0.75 + 0.75 * of_document.total() / mean)
        score += idf * of_document[term] * 2.2 / (of_document[term] + norm)
    return score


def test_bm25_is_its_formula():
    expected = [[brute_force(query, document) for document in DOCUMENTS] for query in QUERIES]
    np.testing.assert_allclose(bm25(QUERIES, DOCUMENTS), expected, rtol=1e-12)
    assert terms("서울은 A 1988년") == ["서울", "울은", "a", "19", "98", "88", "8년"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Questions of one word, one paragraph each, some without an answer; pairs of sentences."""
    folder = tmp_path_factory.mktemp("data")
    paragraphs = [
        {
            "context": f"{topic} {FILLERS[number % 6]} {FILLERS[(number + 1) % 6]}",
            "qas": [
                {
                    "guid": f"q{number}",
                    "question": f"{FILLERS[number % 6]} {topic}",
                    "answers": [] if number == 6 else [{"text": topic, "answer_start": 0}],
                }
            ],
        }
        for number, topic in enumerate(TOPICS)
    ]
    rows = {"data": [{"title": "", "paragraphs": paragraphs}]}
    write(folder / "klue-mrc-v1.1_dev.json", rows)
    pairs = [
        {
            "guid": f"s{number}",
            "sentence1": f"{TOPICS[number % 7]} {FILLERS[number % 6]}",
            "sentence2": f"{TOPICS[number % 5]} {FILLERS[number % 4]}",
            "labels": {"real-label": float(number % 6)},
        }
        for number in range(20)
    ]
    write(folder / "klue-sts-v1.1_dev.json", pairs)
    return folder


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr("benchmarks.statistics.uncertainty.NUM_RESAMPLES", 50)


def scores_in(output: Path) -> list[Score]:
    return read_csv(output / "retrieval" / TABLE, Score)


CPU = sets('evaluate.device="cpu"', 'evaluate.precision="fp32"')


def score(model, data, output, *words: str) -> dict[tuple[str, str, str], float]:
    where = ["--data-dir", str(data), *sets(f'output_dir="{output}"')]
    assert (
        main(["evaluate", "--suite", "retrieval", "--model", str(model), *where, *CPU, *words]) == 0
    )
    return {(s.encoder, s.task, s.metric): s.value for s in scores_in(output)}


def test_the_suite_from_the_command_to_the_page(model_folder, data, tmp_path):
    output = tmp_path / "out"
    values = score(model_folder, data, output, "--set", "evaluate.random_init_control=true")
    encoders = {encoder for encoder, _, _ in values}
    assert len(encoders) == 4
    (name,) = {e for e in encoders if e.endswith("/discriminator")}
    assert values["BM25", "klue-mrc", "recall_at_10"] == 1.0
    assert ("BM25", "klue-sts", "spearman") not in values
    # the same by hand
    encoder = open_sentence_encoder(open_model(str(model_folder)), "cpu")
    rows = json.loads((data / "klue-sts-v1.1_dev.json").read_text(encoding="utf-8"))
    first, second = (encoder.embed([row[f"sentence{n}"] for row in rows]) for n in (1, 2))
    gold = [row["labels"]["real-label"] for row in rows]
    expected = stats.spearmanr(gold, (first * second).sum(axis=1).round(6)).statistic
    assert values[name, "klue-sts", "spearman"] == pytest.approx(expected, abs=1e-6)
    (one, *_) = [s for s in scores_in(output) if s.encoder == name]
    assert (one.num_examples, one.num_paragraphs) == (6, 7)  # one question has no answer
    place = output / "retrieval" / "predictions" / "klue-mrc"
    _, lines = read_predictions(place / "BM25.jsonl")
    assert [line["rank"] for line in lines] == [1] * 6
    page = text_of(report(read_runs([output])).read_text(encoding="utf-8"))
    assert "| klue-mrc | BM25 | 6 | 7 | 100.0 (100.0 to 100.0) |" in page
    # of other tasks it would replace what is there
    before = (output / "retrieval" / TABLE).read_bytes()
    words = ["--suite", "retrieval", "--task", "klue-sts", "--model", str(model_folder)]
    where = ["--data-dir", str(data), *sets(f'output_dir="{output}"')]
    assert main(["evaluate", *words, *where, *CPU]) == 1
    assert (output / "retrieval" / TABLE).read_bytes() == before


def test_a_sentence_encoder_from_the_command_to_its_scores(model_folder, data, tmp_path, capsys):
    """It is better than the encoder that it was trained from, whose hidden states are random."""
    run = tmp_path / "run"
    save_electra(run / "export" / "discriminator", ElectraForPreTraining, 11)
    rows = [
        {"anchor": f"{filler} {topic}", "positive": f"{topic} {other}"}
        for topic in TOPICS
        for filler in FILLERS
        for other in FILLERS[:2]
    ]
    pairs = write(tmp_path / "pairs.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    options = ['embed.device="cpu"', 'embed.precision="fp32"', "embed.batch_size=14"]
    options += ["embed.learning_rate=5e-3", "embed.num_epochs=8", "embed.max_sequence_length=16"]
    command = ["embed", str(run), "--pairs", str(pairs), *sets(*options)]
    assert main(command) == 0
    folder = run / "embed"
    assert f"sentence encoder: {folder}" in capsys.readouterr().out
    counts = read_manifest(folder)["counts"]
    assert counts["pairs"] == {str(pairs): 84}
    assert counts["max_difference"] <= 1e-5
    assert {path.name for path in folder.iterdir()} >= {
        "modules.json", "1_Pooling", "config_sentence_transformers.json", "README.md",
        "sentence_bert_config.json", "model.safetensors", "config.json", "tokenizer.json",
    }  # fmt: skip
    assert not list(folder.glob("*.pt"))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "library_name: sentence-transformers" in card
    assert "84 of pairs.jsonl" in card
    weights = (folder / "model.safetensors").read_bytes()
    assert main(command) == 0  # done already
    assert (folder / "model.safetensors").read_bytes() == weights
    before = score(model_folder, data, tmp_path / "before")
    after = score(folder, data, tmp_path / "after")
    (old,) = {e for e, _, _ in before if e.endswith("/discriminator")}
    key = ("klue-mrc", "ndcg_at_10")
    assert after["run/embed", *key] > before[(old, *key)]
    assert after["run/embed", *key] > 0.9


LONGER = ["--pairs", "two.csv", "--set", "embed.max_sequence_length=99"]
TASK = ["--suite", "retrieval", "--task", "klue-ynat", "--data-dir", "."]


@pytest.mark.parametrize(
    ("verb", "words", "message"),
    [
        ("embed", [], "nothing to learn from: give --pairs"),
        ("embed", ["--pairs", "one.csv"], "one pair has no other"),
        ("embed", LONGER, "embed.max_sequence_length = 99 is more than the 32 positions"),
        ("evaluate", TASK, "retrieval cannot look at klue-ynat"),
    ],
)
def test_what_cannot_be_done_is_refused(
    verb, words, message, model_folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "one.csv", "anchor,positive\n하나,둘\n")
    write(tmp_path / "two.csv", "anchor,positive\n하나,둘\n셋,넷\n")
    model = ["--model"] * (verb == "evaluate") + [str(model_folder)]
    assert main([verb, *model, *words, *sets(f'output_dir="{tmp_path}/out"')]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "embed").exists()


def test_a_run_without_an_export_is_not_looked_for_on_the_hub(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = '[{ kind = "text", language = "ko", path = "*.txt" }]'
    write(
        tmp_path / "mine.toml",
        f'name = "mine"\noutput_dir = "out/mine"\n[clean]\nsources = {source}\n',
    )
    assert main(["embed", "mine.toml", "--pairs", "one.csv"]) == 1
    assert "run first: electrify export" in capsys.readouterr().err
