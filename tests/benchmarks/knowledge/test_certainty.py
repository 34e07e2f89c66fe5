"""Certainty of a planted discriminator, and the command."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.encoder import open_model
from benchmarks.knowledge import certainty as module
from benchmarks.knowledge.__main__ import main
from benchmarks.knowledge.certainty import certainty, corrupt
from benchmarks.korean.morphemes import Morpheme, Sentence
from benchmarks.proofreading.detectors import cut
from tests.benchmarks.conftest import FILLERS, TOPICS, build_tokenizer, text_of


@pytest.fixture(scope="module")
def sentences():
    """Nouns (topics) and adverbs (fillers)."""
    draw, found = np.random.default_rng(0), []
    for _ in range(200):
        words = [str(draw.choice(TOPICS if i % 2 else FILLERS)) for i in range(8)]
        morphemes, start = [], 0
        for number, word in enumerate(words):
            tag = "NNG" if number % 2 else "MAG"
            morphemes.append(Morpheme(word, tag, start, start + len(word)))
            start += len(word) + 1
        found.append(Sentence(" ".join(words), tuple(morphemes)))
    return found


@pytest.fixture(scope="module")
def corrupted(sentences):
    texts = [sentence.text for sentence in sentences]
    pieces = dict(zip(texts, cut(build_tokenizer(), texts), strict=True))
    return corrupt(sentences, pieces, None, 150, seed=1)


def test_only_the_places_differ(corrupted):
    assert 100 < len(corrupted) <= 150
    for c in corrupted:
        assert np.flatnonzero(c.original.ids != c.replaced.ids).tolist() == c.places.tolist()
        assert [part == "common noun" for part in c.parts] == [p % 2 == 0 for p in c.places]


def test_a_discriminator_that_knows_nouns_alone(model_folder, corrupted, monkeypatch):
    originals = [c.original for c in corrupted]

    def of_nouns(source):
        def score(texts):
            draw = np.random.default_rng(2)
            is_noun = [(np.arange(len(t.ids)) % 2 == 0) for t in texts]
            known = [
                8.0 * (t.ids != o.ids) * noun + draw.normal(size=len(t.ids)) * ~noun
                for t, o, noun in zip(texts, originals, is_noun, strict=True)
            ]
            return known

        return score

    monkeypatch.setattr(module, "discriminator", of_nouns)
    groups = {row.group: row for row in certainty(open_model(str(model_folder)), corrupted)}
    assert groups["common noun"].auc.value == 1
    assert groups["common noun"].of_replacements > 0.99
    assert groups["adverb"].of_originals == groups["adverb"].of_replacements  # the same noise
    assert groups["adverb"].auc.value == pytest.approx(0.5)
    assert 0.5 < groups["all"].auc.value < 1
    assert groups["all"].num_pieces == sum(len(c.places) for c in corrupted)


def test_the_command_with_an_earlier_network(model_folder: Path, tmp_path: Path):
    text = tmp_path / "held-out.txt"
    words = ["나는", "아이가", "학생이", "친구가"]
    lines = [
        f"{who} {'다시 ' * many}{place} 책을 {verb}"
        for who in words
        for many in range(4)
        for place in ("집에서", "학교에서", "공원에서")
        for verb in ("읽었다.", "읽는다.", "샀다.", "산다.")
    ]
    text.write_text("\n".join(lines), encoding="utf-8")
    out = tmp_path / "out"
    options = ["--seeds", "2", "--output", str(out), "--checkpoints", f"500={model_folder}"]
    assert main([str(model_folder), "--text", str(text), *options]) == 0
    record = json.loads((out / "knowledge.json").read_text(encoding="utf-8"))
    rows = {(r["network"], r["name"], r["layer"]): r["accuracy"]["value"] for r in record["probes"]}
    assert {network for network, _, _ in rows} == {"model", "untrained", "500"}
    assert {layer for _, _, layer in rows} == {0, 1, 2}
    for (network, name, layer), accuracy in rows.items():
        if network == "500":  # the same weights
            assert accuracy == rows["model", name, layer]
    assert {row["network"] for row in record["certainty"]} == {"model", "500"}
    page = text_of((out / "knowledge.html").read_text(encoding="utf-8"))
    for place in (page, (out / "knowledge.md").read_text(encoding="utf-8")):
        assert "The highest measured selectivity: " in place
        assert "Probes by layer" in place
        assert "From step 500" in place


def test_other_vocabularies_are_refused(model_folder: Path, tmp_path: Path, capsys):
    import shutil

    other = tmp_path / "other"
    shutil.copytree(model_folder, other)
    build_tokenizer((*FILLERS, *TOPICS)).save_pretrained(other)
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"나는 오늘 {n}번 책을 읽었다." for n in range(80)), encoding="utf-8")
    options = ["--text", str(text), "--seeds", "2", "--output", str(tmp_path / "out")]
    assert main([str(model_folder), *options, "--checkpoints", f"500={other}"]) == 1
    assert "another vocabulary" in capsys.readouterr().err
    assert main([str(model_folder), *options, "--checkpoints", f"x={other}"]) == 1
    assert "give STEP=FOLDER" in capsys.readouterr().err
