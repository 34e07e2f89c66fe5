"""Planted copies have the similarity they claim, and what was found is counted as it is."""

import json
import random
from fractions import Fraction
from pathlib import Path

import orjson
import pytest

from benchmarks.throughput.copies import (
    BAND_WIDTH,
    BANDS,
    Outcome,
    Text,
    jaccard,
    measure_precision,
    plant,
    read_peer_outcome,
    shingles,
)
from benchmarks.throughput.texts import Corpus, find_corpora, prepare

_WORDS = [f"낱말{i}" if i % 2 else f"word{chr(97 + i % 26)}{i}x" for i in range(900)]
_WORDS = [word.translate(str.maketrans("0123456789", "abcdefghij")) for word in _WORDS]


def _texts(number: int) -> list[Text]:
    rng = random.Random(5)
    return [
        Text(f"00-00000-{i:09d}", 0, "ko", "\n".join(rng.choices(_WORDS, k=rng.randint(400, 700))))
        for i in range(number)
    ]


def _true_jaccard(one: str, other: str) -> Fraction:
    sets = []
    for text in (one, other):
        words = text.split()
        sets.append({" ".join(words[i : i + 5]) for i in range(len(words) - 4)})
    return Fraction(len(sets[0] & sets[1]), len(sets[0] | sets[1]))


def test_every_copy_is_in_its_band_and_originals_differ() -> None:
    planted = plant(_texts(120), num_exact=20, num_near=3, seed=1)
    assert len({p.original.id for p in planted}) == len(planted) == 20 + len(BANDS) * 3
    for copy in planted:
        true = _true_jaccard(copy.original.text, copy.text)
        assert float(true) == pytest.approx(copy.jaccard)
        assert copy.band <= true <= copy.band + BAND_WIDTH + 1e-9 or copy.band == 1.0
        assert (copy.text == copy.original.text) == (copy.band == 1.0)


def test_jaccard_of_short_texts_is_that_of_all_their_words() -> None:
    assert jaccard(shingles("Two WORDS!"), shingles("two words")) == 1.0
    assert jaccard(shingles("two words"), shingles("two word")) == 0.0
    assert jaccard(shingles("a b c d e 17"), shingles("a b c d e 205")) == 1.0
    assert jaccard(shingles("a b c d e f"), shingles("a b c d e g")) == pytest.approx(1 / 3)


def _corpora(folder: Path, documents: int) -> list[Corpus]:
    for language in ("en", "ko"):
        (folder / "corpora" / language).mkdir(parents=True)
        with (folder / "corpora" / language / "some-docs.jsonl").open("wb") as file:
            for text in _texts(documents):
                file.write(orjson.dumps({"text": f"{language} {text.text}"}) + b"\n")
    return find_corpora(folder, None)


def test_ids_name_source_file_and_row_and_nothing_is_lost(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("benchmarks.throughput.texts.FILE_BYTES", 40_000)
    prepared = prepare(tmp_path / "input", _corpora(tmp_path, 60), num_exact=3, num_near=1)
    found = {}
    for index in range(2):
        for number, path in enumerate(sorted((tmp_path / "input" / f"{index:02d}").glob("*"))):
            for row, line in enumerate(path.read_bytes().splitlines(), start=1):
                document = orjson.loads(line)
                assert document["id"] == f"{index:02d}-{number:05d}-{row:09d}"
                found[document["id"]] = document["text"]
    assert number > 1
    assert len(found) == prepared.num_documents == 120 + 3 + len(BANDS)
    assert sum(len(text.encode()) for text in found.values()) == prepared.num_bytes
    for pair in prepared.pairs:
        assert float(_true_jaccard(found[pair.original], found[pair.copy])) == pytest.approx(
            pair.jaccard
        )
    some = {pair.copy for pair in prepared.pairs}
    assert prepared.texts(some) == {i: found[i] for i in some}


@pytest.mark.parametrize("languages", [None, ("ko",)])
def test_missing_data_are_named(tmp_path: Path, languages) -> None:
    with pytest.raises(ValueError, match=r"no folder .*corpora; give --data-dir"):
        find_corpora(tmp_path, languages)
    (tmp_path / "corpora" / "ko").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"no \*.jsonl .* languages there: ko"):
        find_corpora(tmp_path, languages)


def test_precision_looks_at_the_document_that_is_left() -> None:
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(104)]
    texts = {
        "kept": " ".join(words),
        "equal": " ".join(words),
        "chained": " ".join(["x"] * 10 + words[10:]),
    }
    outcome = Outcome({"chained": "equal", "equal": "kept"}, frozenset({"kept"}))
    both, unequal = measure_precision("x", outcome, texts)
    # 90 of 100 shingles are common; of the copy's others "x x x x x" stands once, and 4 reach over
    assert (both["number"], unequal["number"]) == (2, 1)
    assert (both["at_least_80"], unequal["at_least_80"]) == (1.0, 1.0)
    texts["chained"] = " ".join(words[:40] + ["x"] * 64)
    both, unequal = measure_precision("x", outcome, texts)
    assert (both["at_least_50"], unequal["at_least_50"]) == (0.5, 0.0)


def test_the_kept_document_of_a_cluster_stands_for_the_removed(tmp_path: Path) -> None:
    def write(name: str, rows: list[tuple[str, int]]) -> None:
        (tmp_path / name).mkdir(parents=True)
        lines = (
            json.dumps(
                {"id": i, "text": "", "metadata": {"minhash_cluster_id": c}}
                if c is not None
                else {"id": i, "text": "", "metadata": {}}
            )
            for i, c in rows
        )
        (tmp_path / name / "00000.jsonl").write_text("\n".join(lines), encoding="utf-8")

    write("ko/kept", [("a", 4), ("b", -1), ("c", 0), ("d", None)])
    write("ko/removed", [("a1", 4), ("c1", 0), ("a2", 4)])
    write("en/kept", [("e", 4)])  # clusters of another part have numbers of their own
    write("en/removed", [("e1", 4)])
    outcome = read_peer_outcome([tmp_path / "ko", tmp_path / "en"])
    assert outcome == Outcome({"a1": "a", "a2": "a", "c1": "c", "e1": "e"}, frozenset("abcde"))
