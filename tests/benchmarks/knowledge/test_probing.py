"""Probes find what is in a layer, and the control task takes off what is learnt by heart."""

import numpy as np
import pytest

from benchmarks.knowledge.probing import control_labels, probe_layers, states_of
from benchmarks.knowledge.properties import MEAN, Example
from benchmarks.proofreading.detectors import cut
from tests.benchmarks.conftest import build_tokenizer

NUM_EXAMPLES, NUM_TYPES, WIDTH = 600, 20, 24


def make_examples(draw: np.random.Generator) -> list[Example]:
    return [
        Example(f"문장 {i}", MEAN, f"label {draw.integers(2)}", f"type {i % NUM_TYPES}", f"{i}")
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
    return probe_layers("planted", states, examples, range(4))


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


def test_states_are_those_of_the_encoder(model_folder):
    import torch
    from transformers import AutoModel

    tokenizer = build_tokenizer()
    encoder = AutoModel.from_pretrained(model_folder).eval()
    texts = ["국회 증시 오늘", "여행"]
    pieces = dict(zip(texts, cut(tokenizer, texts), strict=True))
    examples = [
        Example(texts[0], 2, "a", "a", "a"),
        Example(texts[1], MEAN, "a", "a", "a"),
        Example(texts[0], MEAN, "a", "a", "a"),
    ]
    found = states_of(encoder, tokenizer.pad_token_id, pieces, examples)
    with torch.no_grad():
        long, short = (
            torch.stack(
                encoder(
                    **tokenizer(t, return_tensors="pt"), output_hidden_states=True
                ).hidden_states
            )[:, 0].numpy()
            for t in texts
        )
    expected = np.stack([long[:, 2], short[:, 1:-1].mean(1), long[:, 1:-1].mean(1)], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
