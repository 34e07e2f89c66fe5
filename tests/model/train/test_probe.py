"""Figures of states equal their formulas; a probe finds what states hold, and no more."""

import json

import numpy as np
import pytest
import torch

from electrify.config.pretrain import ProbeConfig
from model.train.probe import Probe, probe_score, read_labelled, state_figures
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import build_tokenizer, save_tokenizer


def figures(states, texts):
    return state_figures([(torch.as_tensor(states), torch.as_tensor(texts))])


def test_texts_that_differ_alike_in_all_directions_have_the_ratio_of_their_number():
    states = np.concatenate([np.eye(6), -np.eye(6)])[None]  # twelve texts of one token each
    found = figures(states, np.arange(12)[None])
    assert found["participation_ratio"] == pytest.approx(6)
    assert found["mean_state_share"] == pytest.approx(0)
    assert found["pooled_variance"] == pytest.approx(1)
    states[..., 1:] = 0
    assert figures(states, np.arange(12)[None])["participation_ratio"] == pytest.approx(1)


def test_padding_and_the_cut_into_batches_change_nothing():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(5, 7, 3)) + 1
    texts = np.sort(rng.integers(0, 3, size=(5, 7)), axis=1)
    texts[2, 4:] = -1
    whole = figures(states, texts)
    states[2, 4:] = 1e6
    parts = state_figures(
        (torch.as_tensor(s)[None], torch.as_tensor(t)[None])
        for s, t in zip(states, texts, strict=True)
    )
    assert parts == pytest.approx(whole)


def test_a_probe_scores_labels_that_states_hold_and_no_others():
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b"] * 100)
    signal = rng.normal(size=(200, 8)) + 4 * (labels == "a")[:, None]
    noise = rng.normal(size=(200, 8))
    halves = slice(100), slice(100, None)
    for features, low, high in ((signal, 0.95, 1), (noise, 0.3, 0.7)):
        score = probe_score(
            features[halves[0]], labels[halves[0]], features[halves[1]], labels[halves[1]]
        )
        assert low <= score <= high


@pytest.fixture
def vocab(tmp_path):
    pieces = [*SPECIAL_TOKENS, *"abcd"]
    folder = tmp_path / "vocab"
    folder.mkdir()
    save_tokenizer(build_tokenizer(pieces, lowercase=False), folder, lowercase=False)
    return folder


def test_rows_are_scored_in_their_own_order_whatever_their_length(tmp_path, vocab):
    """A text's state is here its first letter, so a probe that mixes rows up would fail."""
    rng = np.random.default_rng(0)
    rows = [
        {"text": " ".join([letter, *rng.choice(list("cd"), rng.integers(0, 9))]), "label": letter}
        for letter in rng.choice(["a", "b"], 200)
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows), encoding="utf-8")

    def states(ids, tokens):
        first = torch.nn.functional.one_hot(ids[:, 1], 16).double()
        return [torch.zeros(*ids.shape, 4), first[:, None].expand(-1, ids.shape[1], -1)]

    found = Probe(ProbeConfig(path=str(path)), vocab, 16).figures(states)
    assert found["probe_layer_1"] == found["probe_f1"] == 1
    assert found["probe_layer_0"] < 0.6


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.json", json.dumps([{"title": f"t{n}", "y": n % 2} for n in range(20)])),
        ("rows.jsonl", "\n".join(json.dumps({"title": f"t{n}", "y": n % 2}) for n in range(20))),
        ("rows.tsv", "title\ty\n" + "\n".join(f"t{n}\t{n % 2}" for n in range(20))),
        ("rows.csv", "y,title\n" + "\n".join(f'{n % 2},"t{n}"' for n in range(20))),
    ],
)
def test_files_of_all_forms_hold_the_same_rows(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    options = ProbeConfig(path=str(path), text="title", label="y")
    assert read_labelled(options) == [(f"t{n}", str(n % 2)) for n in range(20)]


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("rows.json", "[1, 2]", "named fields"),
        ("rows.json", "{", "rows.json"),
        ("rows.json", "[" * 100_000, "rows.json is not valid JSON: it is nested too deeply"),
        ("rows.txt", "", "jsonl"),
        ("rows.tsv", "text\tlabel\na\tb", "20"),
        ("rows.tsv", "text\tclass\n" + "a\tb\n" * 30, "'class'"),
    ],
)
def test_other_files_are_refused(tmp_path, name, content, named):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=named):
        read_labelled(ProbeConfig(path=str(path)))
