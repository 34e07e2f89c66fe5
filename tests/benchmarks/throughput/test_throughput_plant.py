"""Planted copies have the similarity they claim, and each its own original."""

import random
from fractions import Fraction
from pathlib import Path

import orjson
import pytest

from benchmarks.throughput.corpus import Corpus, find_corpora, prepare
from benchmarks.throughput.jaccard import jaccard, shingles
from benchmarks.throughput.plant import BAND_WIDTH, BANDS, Text, plant

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
    assert len({p.original.id for p in planted}) == len(planted) == 20 + 2 * len(BANDS) * 3
    for copy in planted:
        true = _true_jaccard(copy.original.text, copy.text)
        assert float(true) == pytest.approx(copy.jaccard)
        assert copy.band <= true <= copy.band + BAND_WIDTH + 1e-9 or copy.kind == "exact"
        assert (copy.text == copy.original.text) == (copy.kind == "exact")


def test_the_seed_decides() -> None:
    texts = _texts(60)
    assert plant(texts, 4, 1, seed=7) == plant(texts, 4, 1, seed=7)
    assert plant(texts, 4, 1, seed=7) != plant(texts, 4, 1, seed=8)


def test_a_small_corpus_is_refused_with_its_size() -> None:
    with pytest.raises(ValueError, match=r"27 copies need .* has 10; give fewer"):
        plant(_texts(10), num_exact=11, num_near=1, seed=0)


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
    monkeypatch.setattr("benchmarks.throughput.corpus.FILE_BYTES", 40_000)
    prepared = prepare(tmp_path / "input", _corpora(tmp_path, 60), num_exact=3, num_near=1)
    found = {}
    for index in range(2):
        for number, path in enumerate(sorted((tmp_path / "input" / f"{index:02d}").glob("*"))):
            for row, line in enumerate(path.read_bytes().splitlines(), start=1):
                document = orjson.loads(line)
                assert document["id"] == f"{index:02d}-{number:05d}-{row:09d}"
                found[document["id"]] = document["text"]
    assert number > 1
    assert len(found) == prepared.num_documents == 120 + 3 + 2 * len(BANDS)
    assert sum(len(text.encode()) for text in found.values()) == prepared.num_bytes
    for pair in prepared.pairs:
        assert float(_true_jaccard(found[pair.original], found[pair.copy])) == pytest.approx(
            pair.jaccard
        )
    some = {pair.copy for pair in prepared.pairs}
    assert prepared.texts(some) == {i: found[i] for i in some}


def test_a_share_is_part_of_a_larger_share(tmp_path: Path) -> None:
    corpora = _corpora(tmp_path, 100)
    texts = []
    for share in (0.2, 0.6, 1.0):
        prepare(tmp_path / f"{share}", corpora, share=share)
        lines = [p.read_bytes().splitlines() for p in (tmp_path / f"{share}").glob("*/*")]
        texts.append({orjson.loads(line)["text"] for part in lines for line in part})
    assert texts[0] < texts[1] < texts[2]
    assert 20 <= len(texts[0]) <= 60
    assert len(texts[2]) == 200


@pytest.mark.parametrize("languages", [None, ("ko",)])
def test_missing_data_are_named(tmp_path: Path, languages) -> None:
    with pytest.raises(ValueError, match=r"no folder .*corpora; give --data-dir"):
        find_corpora(tmp_path, languages)
    (tmp_path / "corpora" / "ko").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"no \*.jsonl .* languages there: ko"):
        find_corpora(tmp_path, languages)
