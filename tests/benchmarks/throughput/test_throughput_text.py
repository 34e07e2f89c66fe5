"""The benchmarks of text on a little corpus: planted copies, and figures by brute force.

Commands run in this process, so that Beam is imported once, and their cost is made up.
"""

import itertools
import json
import random
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

import electrify.cli
from benchmarks.throughput.__main__ import main
from benchmarks.throughput.corpus import corpora, corpus
from benchmarks.throughput.corpus import peer as corpus_peer
from benchmarks.throughput.corpus.corpora import find_corpora, jaccard, plant, prepare
from benchmarks.throughput.corpus.corpus import (
    OURS,
    compare_near,
    recall_rows,
    rules_off,
    write_config,
)
from benchmarks.throughput.cost import Cost
from benchmarks.throughput.vocab import peer as vocab_peer
from benchmarks.throughput.vocab import vocab
from electrify.config.clean import NearDedupConfig
from electrify.config.load import load_config
from vocab.shards.files import TokenShards

SYLLABLES = [a + b for a in ("가", "노", "드", "리", "모") for b in ("람", "숲", "별", "강", "길")]
LETTERS = [a + b for a in ("st", "br", "m", "k", "pl") for b in ("and", "ore", "ilt", "une", "ay")]
NUM_DOCUMENTS, NUM_EXACT, NUM_NEAR = 60, 5, 60


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    rng = random.Random(11)
    data = tmp_path_factory.mktemp("data")
    for language, stock in (("ko", SYLLABLES), ("en", LETTERS)):
        words = ["".join(pair) for pair in itertools.product(stock, stock)]
        folder = data / "corpora" / language
        folder.mkdir(parents=True)
        with (folder / "plain.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(NUM_DOCUMENTS):
                sentences = (" ".join(rng.choices(words, k=12)) + "." for _ in range(25))
                file.write(json.dumps({"text": "\n".join(sentences)}) + "\n")
    return data


def prepared(data: Path, folder: Path) -> corpora.Prepared:
    found = find_corpora(data, ("ko", "en"))
    return prepare(folder / "again", found, None, NUM_EXACT, NUM_NEAR, seed=3)


def brute_force_jaccard(one: str, other: str) -> float:
    sets = []
    for text in (one, other):
        words = text.replace(".", "").split()
        sets.append({tuple(words[i : i + 5]) for i in range(len(words) - 4)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_similarity_is_that_of_5_grams_of_words() -> None:
    assert jaccard("Two WORDS!", "two words") == 1.0
    assert jaccard("two words", "two word") == 0.0
    assert jaccard("a b c d e 17", "a b c d e 205") == 1.0
    assert jaccard("a b c d e f", "a b c d e g") == pytest.approx(1 / 3)


def test_files_hold_all_documents_and_copies_of_known_similarity(
    data: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(corpora, "FILE_BYTES", 40_000)
    made = prepared(data, tmp_path)
    texts = {}
    for index in range(2):
        for number, path in enumerate(sorted((made.folder / f"{index:02d}").glob("*"))):
            for row, line in enumerate(path.read_bytes().splitlines(), start=1):
                document = json.loads(line)
                assert document["id"] == f"{index:02d}-{number:05d}-{row:09d}"
                texts[document["id"]] = document["text"]
    assert number > 1
    assert len(texts) == made.num_documents == 2 * NUM_DOCUMENTS + NUM_EXACT + NUM_NEAR
    assert sum(len(text.encode()) for text in texts.values()) == made.num_bytes
    assert len({pair.original for pair in made.pairs}) == NUM_EXACT + NUM_NEAR
    similar = [brute_force_jaccard(texts[p.copy], texts[p.original]) for p in made.pairs]
    assert similar == pytest.approx([pair.jaccard for pair in made.pairs])
    assert all((texts[p.copy] == texts[p.original]) == (p.jaccard == 1) for p in made.pairs)
    assert similar[:NUM_EXACT] == [1.0] * NUM_EXACT
    assert 0.4 < min(similar) < 0.6 < 0.9 < max(similar[NUM_EXACT:]) < 1
    some = {pair.copy for pair in made.pairs}
    assert made.texts(some) == {i: texts[i] for i in some}


def test_a_share_is_spread_over_the_corpora(data: Path, tmp_path: Path) -> None:
    found = find_corpora(data, None)
    whole = prepare(tmp_path / "a", found)
    half = prepare(tmp_path / "b", found, megabytes=whole.num_bytes / 2e6)
    assert 0.4 < half.num_bytes / whole.num_bytes < 0.6
    with pytest.raises(ValueError, match="no document in"):
        prepare(tmp_path / "c", found, megabytes=0)


def test_missing_data_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no folder .*corpora; give --data-dir"):
        find_corpora(tmp_path, None)
    (tmp_path / "corpora" / "ko").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"no \*.jsonl .* there: ko"):
        find_corpora(tmp_path, ("ko",))
    with pytest.raises(ValueError, match="--near"):
        plant([["too short"]], 0, 1, random.Random(0))


@pytest.fixture(scope="module")
def run_here():
    def run(command, log, cwd=None) -> Cost:
        if log.parent.name == "whole":  # it is timed alone
            return Cost(3.0, 5.0, 60.0)
        if command[2] == "electrify":
            assert electrify.cli.main(command[3:]) == 0
        else:
            vocab_peer.main(command[3:])
        return Cost(2.0, 4.0, 50.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "run_measured", run)
        patch.setattr(vocab, "run_measured", run)
        yield run


def run_command(folder: Path, data: Path, *words: str) -> dict:
    places = ["--data-dir", str(data), "--work", str(folder), "--json", str(folder / "all.json")]
    assert main([*words, *places]) == 0
    figures = (folder / "all.json").read_text(encoding="utf-8")
    assert str(folder) not in figures
    return json.loads(figures)["tables"]


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory, data: Path, run_here) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("corpus")
    copies = ["--exact", str(NUM_EXACT), "--near", str(NUM_NEAR), "--seed", "3"]
    tables = run_command(folder, data, "corpus", *copies, "--workers", "1")
    clean = folder / "near" / "out" / "clean"
    documents, removed = (
        [row for p in sorted(clean.glob(f"{name}-*")) for row in pq.read_table(p).to_pylist()]
        for name in ("documents", "removed")
    )
    removed = [row for row in removed if row["reason"].endswith("duplicate")]
    return SimpleNamespace(
        tables=tables, documents=documents, removed=removed, prepared=prepared(data, folder)
    )


def test_recall_and_precision_equal_brute_force(cleaned) -> None:
    component: dict[str, set[str]] = {}
    for row in cleaned.removed:
        edge = row["id"], row["detail"].split()[1].rstrip(",")
        joined = set(edge).union(*(component.get(of, ()) for of in edge))
        component |= dict.fromkeys(joined, joined)
    pairs = cleaned.prepared.pairs
    tenths = sorted({int(10 * pair.jaccard) / 10 for pair in pairs})
    assert [row["jaccard_from"] for row in cleaned.tables["recall"]] == tenths
    for row in cleaned.tables["recall"]:
        of = [pair for pair in pairs if int(10 * pair.jaccard) == round(10 * row["jaccard_from"])]
        together = sum(pair.original in component.get(pair.copy, ()) for pair in of)
        assert (row["pairs"], row["together"]) == (len(of), together)
        assert row["recall"] == together / len(of)
    kept = {row["id"]: row["text"] for row in cleaned.documents}
    similar = []
    for row in cleaned.removed:
        (left,) = (kept[of] for of in component[row["id"]] if of in kept)
        similar.append(brute_force_jaccard(row["text"], left) >= 0.7)
    (found,) = cleaned.tables["precision"]
    assert found["removals"] == len(cleaned.removed) > 5
    assert found["at_least_0.7"] == pytest.approx(sum(similar) / len(similar))


def test_plain_copies_are_found_and_others_are_left(cleaned) -> None:
    found = {row["jaccard_from"]: row["recall"] for row in cleaned.tables["recall"]}
    assert (found[1.0], found[0.9], found[0.5]) == (1.0, 1.0, 0.0)
    (near,) = cleaned.tables["near"]
    assert near["documents"] == cleaned.prepared.num_documents
    assert near["mb_per_second"] == pytest.approx(cleaned.prepared.num_bytes / 1e6 / 2)
    whole, web = cleaned.tables["whole"]
    assert (whole["wall_seconds"], whole["megabytes"]) == (3.0, near["megabytes"])
    assert "as web pages" in web["name"]


def test_chains_of_removals_end_at_what_is_left() -> None:
    pairs = [corpora.Pair("copy", "original", 0.85), corpora.Pair("other", "original", 0.8)]
    removals = {"copy": "between", "between": "kept", "original": "kept"}
    (row,) = recall_rows("x", pairs, removals)
    assert (row["jaccard_from"], row["pairs"], row["together"]) == (0.8, 2, 1)


def test_the_peer_is_compared_and_one_that_fails_is_told(tmp_path: Path, monkeypatch) -> None:
    costs = iter([Cost(5.0, 36.0, 1.0)])

    def run(*_: object) -> Cost:
        if (cost := next(costs, None)) is None:
            raise ValueError(f"failed below {tmp_path}")
        return cost

    monkeypatch.setattr(corpus, "install_peer", lambda _: Path("python"))
    monkeypatch.setattr(corpus, "run_clean", lambda *_, **__: (Cost(2.0, 4.0, 1.0), tmp_path))
    monkeypatch.setattr(corpus, "run_peer", run)
    monkeypatch.setattr(corpus, "read_peer_removals", lambda _: {})
    made = corpora.Prepared(tmp_path, (), 5, 1000, ())
    settings = corpus.Settings(tmp_path, tmp_path, None, None, 0, 0, 0, True, 1)
    notes: list[str] = []
    rows, removals = compare_near(made, settings, notes)
    first, second = corpus.PEER_SETTINGS
    assert list(removals) == [OURS, first.name]
    ratios = [row.get(f"ratio_of_{name}_seconds") for row in rows for name in ("cpu", "wall")]
    assert ratios == [None, None, 9.0, 2.5]
    (note,) = notes
    assert second.name in note
    assert str(tmp_path) not in note


def test_the_peer_has_its_bands_and_ours(tmp_path: Path, monkeypatch) -> None:
    tasks = []

    def run(command: list[str], _: Path) -> Cost:
        tasks.append(json.loads(Path(command[-1]).read_text(encoding="utf-8")))
        return Cost(1.0, 1.0, 1.0)

    monkeypatch.setattr(corpus_peer, "run_measured", run)
    for peer in (*corpus_peer.PEER_SETTINGS, corpus_peer.PEER_OF_WHOLE):
        corpus_peer.run_peer(Path("python"), tmp_path, peer, tmp_path / "peer", 1)
    ours = NearDedupConfig()
    names = ("num_bands", "rows_per_band", "has_plain_words", "has_filters")
    same = ours.num_bands, ours.rows_per_band, True
    expected = [(14, 8, False, False), (*same, False), (*same, True)]
    assert [tuple(task[name] for name in names) for task in tasks] == expected


def test_the_kept_document_of_a_cluster_stands_for_the_removed(tmp_path: Path) -> None:
    rows = {"kept": [("a", 4), ("b", -1), ("c", 0), ("d", None)], "removed": [("e", 4), ("f", 0)]}
    for name, of in rows.items():
        (tmp_path / name).mkdir()
        lines = [
            json.dumps({"id": i, "metadata": {} if c is None else {"minhash_cluster_id": c}})
            for i, c in of
        ]
        (tmp_path / name / "00000.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert corpus_peer.read_peer_removals(tmp_path) == {"e": "a", "f": "c"}


def test_what_is_off_is_off_in_the_config(data: Path, tmp_path: Path) -> None:
    made = corpora.Prepared(tmp_path, find_corpora(data, ("ko",)), 1, 1, ())
    (tmp_path / "out" / "clean").mkdir(parents=True)  # of an earlier run
    off = load_config(write_config(made, tmp_path, rules_off())).clean
    assert not (tmp_path / "out").exists()
    assert not any((off.remove_html, off.mask_pii, off.repair_mojibake, off.max_repeats))
    assert (off.min_characters, off.min_language_fraction) == (0, 0.0)
    assert off.near_dedup.enabled


def test_the_vocabulary_is_trained_and_used_by_both(tmp_path: Path, data: Path, run_here) -> None:
    size = ["--vocab-size", "150", "--languages", "all", "--peer"]
    tables = run_command(tmp_path, data, "vocab", *size)
    paths = sorted((tmp_path / "out" / "clean").glob("documents-*"))
    texts = [text for path in paths for text in pq.read_table(path)["text"].to_pylist()]
    assert len(texts) == 2 * NUM_DOCUMENTS
    ours, peer = tables["training"]
    assert (ours["name"], peer["name"]) == (vocab.OURS, vocab.PEER)
    assert ours["megabytes"] == sum(len(text.encode()) for text in texts) / 1e6
    assert "ratio_of_cpu_seconds" not in ours
    assert peer["ratio_of_cpu_seconds"] == 1.0  # costs are made up, and the same
    of_peer = Tokenizer.from_file(str(tmp_path / "train.json"))
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "vocab" / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == of_peer.get_vocab_size() == 150
    shards, alone = tables["encoding"]
    assert alone["ratio_of_wall_seconds"] == alone["wall_seconds"] / shards["wall_seconds"] > 0
    streams = TokenShards(tmp_path / "out" / "shards")
    tokens = sum(
        streams.stream(split, language).num_tokens
        for split in ("train", "valid")
        for language in streams.languages(split)
    )
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    assert tokens == sum(len(encoding.ids) + 1 for encoding in encoded)
