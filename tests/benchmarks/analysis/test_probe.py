"""The command from a model to tables, and their place in a run's report.

Labels follow from morphemes by rule; probes find what is in a layer, and the control task takes off
what is learnt by heart.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModel

from benchmarks.analysis.korean import analyse
from benchmarks.analysis.probe import (
    MEAN,
    ProbeExample,
    control_labels,
    examples_of,
    hidden_states,
    part_of_speech,
    parts_of_pieces,
    probe_layers,
)
from benchmarks.analysis.reader import Reader
from benchmarks.report.report import read_runs, report
from electrify.cli import main
from tests.benchmarks.conftest import build_tokenizer, text_of

SIZES = ["--mistakes", "40", "--examples", "120", "--seeds", "2"]
TITLES = ("Which planted mistakes it finds", "What the network knows")


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "held-out.txt"
    lines = [
        f"{who} {'다시 ' * many}{place} 책을 {verb}"
        for who in ("나는", "아이가", "학생이", "친구가")
        for many in range(4)
        for place in ("집에서", "학교에서", "공원에서")
        for verb in ("읽었다.", "읽는다.", "샀다.", "산다.")
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_figures_of_a_run_with_counts(
    model_folder: Path, generator_folder: Path, text: str, tmp_path: Path
):
    run = tmp_path / "run"
    (run / "export").mkdir(parents=True)
    (run / "pretrain.partial").mkdir()
    (run / "export" / "discriminator").symlink_to(model_folder)
    (run / "export" / "generator").symlink_to(generator_folder)
    assert TITLES[0] not in text_of(report(read_runs([run])).read_text(encoding="utf-8"))
    words = ["probe", str(run), "--text", text, "--corpus", text, *SIZES]
    assert main(words) == 0
    record = json.loads((run / "probe" / "probe.json").read_text(encoding="utf-8"))
    detectors = {row["detector"] for row in record["mistakes"]}
    assert detectors == {"discriminator", "generator", "rarity"}
    assert {row["kind"] for row in record["mistakes"]} >= {"particle-form", "keyboard"}
    assert {row["network"] for row in record["layers"]} == {"model", "random-init"}
    assert {row["layer"] for row in record["layers"]} == {0, 1, 2}
    pages = [(run / "probe" / "probe.html").read_text(encoding="utf-8")]
    pages.append(report(read_runs([run])).read_text(encoding="utf-8"))
    markdown = (run / "probe" / "probe.md").read_text(encoding="utf-8")
    for place in (*map(text_of, pages), markdown):
        assert all(title in place for title in TITLES)
        for title in ("wrong form of a particle", "Probes by layer"):
            assert title in place
        assert "The highest measured selectivity: " in place
    (run / "probe" / "probe.json").write_text("[]")
    with pytest.raises(ValueError, match=r"probe\.json holds a list"):
        report(read_runs([run]))


# Layers.

STEMS = ["책을 읽", "밥을 먹", "손을 씻", "문을 닫", "옷을 입"]
ENDINGS = {
    "었다": "past plain",
    "는다": "present plain",
    "었습니다": "past formal",
    "습니다": "present formal",
    "어요": "present polite",
    "겠다": "- plain",
}


@pytest.fixture(scope="module")
def examples(reader: Reader):
    texts = [
        f"{who} {when} {stem}{ending}."
        for who in ("나는", "아이가", "학생이")
        for when in ("오늘", "집에서 오늘", "다시 큰 집에서 오늘")
        for stem in STEMS
        for ending in ENDINGS
    ]
    sentences = analyse(texts)
    cut = dict(zip(texts, reader.cut(texts), strict=True))
    return examples_of(sentences, cut, 120, seed=0)


def test_labels_are_equally_frequent(examples):
    assert set(examples) >= {"length", "tense", "level of speech", "word order"}
    for found in examples.values():
        assert len(set(Counter(example.label for example in found).values())) == 1
        assert len(found) <= 120


def test_a_piece_has_the_part_of_speech_of_its_first_character(reader: Reader):
    tokenizer = build_tokenizer(("학생", "##이", "책", "##을", "샀다"))
    (sentence,) = analyse(["학생이 책을 샀다"])
    (text,) = replace(reader, source=SimpleNamespace(tokenizer=tokenizer)).cut([sentence.text])
    parts = ["common noun", "particle", "common noun", "particle", "verb"]
    assert parts_of_pieces(sentence, text) == parts
    assert part_of_speech("NNG") == "common noun"
    assert part_of_speech("NP") == "pronoun, numeral"
    assert part_of_speech("W_URL") is None


# Probes.

NUM_EXAMPLES, NUM_TYPES, WIDTH = 600, 20, 24


def make_examples(draw: np.random.Generator) -> list[ProbeExample]:
    return [
        ProbeExample(
            f"문장 {i}", MEAN, f"label {draw.integers(2)}", f"type {i % NUM_TYPES}", f"{i}"
        )
        for i in range(NUM_EXAMPLES)
    ]


@pytest.fixture(scope="module")
def probes():
    """Layer 0: noise; 1: the label; 2: the type alone."""
    draw = np.random.default_rng(0)
    examples = make_examples(draw)
    states = draw.normal(size=(3, NUM_EXAMPLES, WIDTH))
    states[1, :, 3] += [8.0 * (e.label == "label 1") for e in examples]
    for number, example in enumerate(examples):
        states[2, number, int(example.type.split()[1])] += 8
    return probe_layers("model", "planted", states, examples, range(4))


def test_a_planted_feature_is_found_in_its_layer_alone(probes):
    noise, planted, _ = probes
    assert planted.accuracy.value > 0.98
    assert planted.selectivity.value > 0.4
    assert abs(noise.accuracy.value - 0.5) < 0.1
    assert noise.selectivity.low < 0 < noise.selectivity.high
    assert [probe.layer for probe in probes] == [0, 1, 2]


def test_what_is_learnt_by_heart_is_not_selective(probes):
    of_types = probes[2]
    assert of_types.control.value > 0.9
    assert of_types.selectivity.value < 0


def test_control_labels_are_one_a_type_and_by_the_seed():
    examples = make_examples(np.random.default_rng(1))
    labels = control_labels(examples, 0)
    assert np.unique(labels, return_counts=True)[1].tolist() == [NUM_EXAMPLES / 2] * 2
    for kind in {e.type for e in examples}:
        assert (
            len({label for label, e in zip(labels, examples, strict=True) if e.type == kind}) == 1
        )
    assert (labels == control_labels(examples, 0)).all()
    assert (labels != control_labels(examples, 1)).any()


def test_hidden_states_are_those_of_the_encoder(model_folder, reader: Reader):
    encoder = AutoModel.from_pretrained(model_folder).eval()
    texts = ["국회 증시 오늘", "여행"]
    examples = [
        ProbeExample(texts[0], 1, "a", "a", "a"),
        ProbeExample(texts[1], MEAN, "a", "a", "a"),
        ProbeExample(texts[0], MEAN, "a", "a", "a"),
    ]
    states = hidden_states(reader, encoder, examples)
    with torch.no_grad():
        long, short = (
            torch.stack(
                encoder(
                    **reader.source.tokenizer(t, return_tensors="pt"), output_hidden_states=True
                ).hidden_states
            )[:, 0].numpy()
            for t in texts
        )
    expected = np.stack([long[:, 2], short[:, 1:-1].mean(1), long[:, 1:-1].mean(1)], axis=1)
    np.testing.assert_allclose(states, expected, atol=1e-5)
