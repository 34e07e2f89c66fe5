"""The vocabulary benchmark on little texts: its jobs in this process, their cost made up."""

import itertools
import json
import random
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from benchmarks.throughput import vocab, vocab_jobs
from benchmarks.throughput.__main__ import main
from benchmarks.throughput.cost import Cost
from benchmarks.throughput.texts import clean_lightly, find_corpora, prepare_documents
from benchmarks.throughput.vocab import OURS, PEER
from vocab.shards.files import TokenShards

_SYLLABLES = [a + b for a in ("가", "노", "드", "리", "모") for b in ("람", "숲", "별", "강", "길")]
_LETTERS = [a + b for a in ("st", "br", "m", "k", "pl") for b in ("and", "ore", "ilt", "une", "ay")]


def _write_corpora(data: Path) -> None:
    rng = random.Random(11)
    for language, stock in (("ko", _SYLLABLES), ("en", _LETTERS)):
        words = ["".join(pair) for pair in itertools.product(stock, stock)]
        folder = data / "corpora" / language
        folder.mkdir(parents=True)
        with (folder / "plain.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(300):
                sentences = (" ".join(rng.choices(words, k=8)) + "." for _ in range(4))
                file.write(json.dumps({"text": "\n".join(sentences)}) + "\n")
    (data / "klue").mkdir()
    text = "노숲가람 드별리강"
    answer = {"text": "드별", "answer_start": 5}
    paragraph = {"context": text, "qas": [{"answers": [answer], "is_impossible": False}]}
    content = {"data": [{"paragraphs": [paragraph]}]}
    (data / "klue" / "klue-mrc-dev.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> SimpleNamespace:
    """A run of the command; jobs run here, so that Beam is imported once."""
    folder = tmp_path_factory.mktemp("vocab")
    _write_corpora(folder / "data")
    jobs = []

    def run_here(command, log, cwd) -> Cost:
        job, path = command[-2:]
        task = json.loads(Path(path).read_text(encoding="utf-8"))
        if task.get("beam_options"):  # no other processes in a test
            task["beam_options"] = []
            Path(path).write_text(json.dumps(task), encoding="utf-8")
        vocab_jobs.main([job, path])
        jobs.append(job)
        return Cost(2.0, 3.0, 50.0, 60.0)

    patch = pytest.MonkeyPatch()
    patch.setattr(vocab, "run_measured", run_here)
    status = main(
        [
            "vocab",
            "--peer",
            "--no-kiwi",
            "--sizes",
            "0.03,100",
            "--vocab-size",
            "150",
            "--data-dir",
            str(folder / "data"),
            "--work",
            str(folder / "work"),
            "--json",
            str(folder / "all.json"),
        ]
    )
    patch.undo()
    assert status == 0
    figures = (folder / "all.json").read_text(encoding="utf-8")
    tables = json.loads(figures)["tables"]
    return SimpleNamespace(folder=folder, figures=figures, tables=tables, jobs=jobs)


def _texts(folder: Path) -> list[str]:
    paths = sorted((folder / "clean").glob("*.parquet"))
    return [text for path in paths for text in pq.read_table(path)["text"].to_pylist()]


def test_every_text_is_trained_on_by_both(done) -> None:
    assert done.jobs == [
        *["train", "train_peer"] * 3,
        "encode_alone",
        "encode",
        "encode",
        "measure_spans",
    ]
    rows = done.tables["training"]
    assert [row["text"] for row in rows] == ["ko"] * 4 + ["all languages"] * 2
    assert [row["name"] for row in rows] == [OURS, PEER] * 3
    for row, folder in zip(rows[::2], ("ko-0.03", "ko", "all"), strict=True):
        texts = _texts(done.folder / "work" / folder)
        assert row["documents"] == len(texts)
        assert row["megabytes"] == sum(len(text.encode()) for text in texts) / 1e6
        assert row["mb_per_second"] == row["megabytes"] / 2
        for name in ("vocab", "vocab-peer"):
            path = done.folder / "work" / folder / name / "tokenizer.json"
            assert Tokenizer.from_file(str(path)).get_vocab_size() == 150


def test_shards_hold_the_documents(done) -> None:
    shards = TokenShards(done.folder / "work" / "ko" / "shards-1")
    tokens = sum(shards.stream(split).num_tokens for split in ("train", "valid"))
    tokenizer = Tokenizer.from_file(str(done.folder / "work" / "ko" / "vocab" / "tokenizer.json"))
    texts = _texts(done.folder / "work" / "ko")
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    assert tokens == sum(len(encoding.ids) + 1 for encoding in encoded)


def test_figures_stand_beside_those_of_the_peer_and_name_no_path(done) -> None:
    ours, peer = done.tables["training"][:2]
    assert "ratio_of_cpu_seconds" not in ours
    ratios = [peer[f"ratio_of_{name}"] for name in ("wall_seconds", "cpu_seconds", "peak_mb")]
    assert ratios == [1.0, 1.0, 1.0]  # costs are made up, and the same
    alone, ends, _ = done.tables["encoding"]
    assert ends["ratio_of_mb_per_second"] == ends["mb_per_second"] / alone["mb_per_second"]
    borders = done.tables["borders"]
    assert {row["name"] for row in borders} == {PEER, "whitespace"}
    assert {row["data"] for row in borders} == {"klue-mrc-dev.json"}
    assert str(done.folder) not in done.figures


def test_documents_are_a_share_of_the_corpora_cleaned_lightly(tmp_path) -> None:
    _write_corpora(tmp_path)
    corpora = find_corpora(tmp_path, None)
    whole = prepare_documents(tmp_path / "whole", corpora)
    part = prepare_documents(tmp_path / "part", corpora, 0.4)
    assert 0.3 < part.num_documents / whole.num_documents < 0.5
    assert set(_texts(part.folder)) < set(_texts(whole.folder))
    assert whole.num_bytes == sum(len(text.encode()) for text in _texts(whole.folder))
    with pytest.raises(ValueError, match="no document in 0 of plain"):
        prepare_documents(tmp_path / "none", corpora, 0.0)
    assert clean_lightly(" e\u0301 \t b\r\n\n\u3000\n가 ") == "é b\n가"
