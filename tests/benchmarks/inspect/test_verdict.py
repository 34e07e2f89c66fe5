"""Probabilities are those of transformers, and what a verdict rests on sums to the logit."""

import math
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel, ElectraForMaskedLM, ElectraForPreTraining

from benchmarks.inspect import threshold
from benchmarks.inspect.attribution import MAX_RELATIVE_ERROR, attribute
from benchmarks.inspect.threshold import replaced_probabilities, script_of, thresholds_on
from benchmarks.inspect.verdict import Detector, open_detector, window_of

TEXT = "오늘 국회, 큰 반도체!"
LONG = " ".join(["오늘 국회 큰 반도체 축구 내일 여행"] * 15)  # of 105 pieces, a window has 30


def test_logits_are_those_of_transformers(detector: Detector, model_folder: Path):
    network = ElectraForPreTraining.from_pretrained(model_folder)
    encoded = detector.source.tokenizer(TEXT, return_tensors="pt")
    wanted = network(**encoded).logits[0, 1:-1].tolist()
    words = detector.read(TEXT).words
    assert [piece.logit for word in words for piece in word.pieces] == pytest.approx(wanted)
    assert [word.text for word in words] == ["오늘", "국회", ",", "큰", "반도체", "!"]
    assert all(TEXT[slice(*word.span)] == word.text for word in words)
    assert words[1].probability == pytest.approx(1 / (1 + math.exp(-wanted[1])))


def test_a_word_is_as_suspicious_as_its_worst_piece(plant):
    word = plant({"축구": 1.0}).read("축구").words[0]
    first = word.pieces[0]
    word = replace(word, pieces=(first, replace(first, logit=3.0), replace(first, logit=-3.0)))
    assert word.probability == pytest.approx(1 / (1 + math.exp(-3)))


def test_a_long_text_is_read_in_windows_with_surroundings(detector: Detector):
    verdict = detector.read(LONG)
    pieces = [piece for word in verdict.words for piece in word.pieces]
    assert [piece.token for piece in pieces] == LONG.split()
    ids = detector.source.tokenizer(LONG, add_special_tokens=False, verbose=False)["input_ids"]
    for index, piece in enumerate(pieces):
        window = verdict.windows[piece.window].ids
        assert window.shape[1] <= 32
        first = index - piece.position + 1  # the piece that the window begins with
        last = first + window.shape[1] - 2
        assert window[0, 1:-1].tolist() == ids[first:last]
        assert index - first >= 7 or first == 0
        assert last - 1 - index >= 7 or last == len(ids)
        assert piece.logit == pytest.approx(float(detector.logits(window)[0, piece.position]))


@given(st.integers(2, 40), st.integers(1, 200))
def test_every_piece_is_in_its_window(size: int, num_pieces: int):
    overlap = size // 2
    step = size - overlap
    starts = [0]
    while starts[-1] + size < num_pieces:
        starts.append(starts[-1] + step)
    for index in range(num_pieces):
        start = starts[window_of(index, step, overlap, len(starts))]
        assert start <= index < start + size


def test_proposals_are_the_generators_without_the_piece_and_special_tokens(
    detector: Detector, generator_folder: Path
):
    network, tokenizer = ElectraForMaskedLM.from_pretrained(generator_folder), detector.source
    encoded = tokenizer.tokenizer("오늘 [MASK], 큰 반도체!", return_tensors="pt")
    chances = network(**encoded).logits[0, 2].softmax(-1).detach()
    verdict = detector.read(TEXT)
    found = detector.propose(verdict, verdict.words[1].worst)
    own = tokenizer.tokenizer.convert_tokens_to_ids("국회")
    assert found.own_probability == pytest.approx(float(chances[own]))
    others = {
        token: float(chances[i])
        for token, i in tokenizer.tokenizer.get_vocab().items()
        if token != "국회" and token[0] != "["
    }
    wanted = sorted(others.items(), key=lambda pair: -pair[1])[:5]
    assert [(each.token, each.word) for each in found.others] == [(t, t) for t, _ in wanted]
    assert [each.probability for each in found.others] == pytest.approx([p for _, p in wanted])


def test_a_planted_word_is_found_and_its_shares_are_those_planted(plant):
    planted = plant({"축구": 2.0, "여행": 1.5, "새": -0.5, "[MASK]": 0.25, "[CLS]": -3.0})
    verdict = planted.read("새 축구 여행 오늘")
    word = max(verdict.words, key=lambda word: word.probability)
    assert word.text == "축구"
    found = attribute(planted, verdict, word.worst)
    weights = [-0.5, 2 * 2.0, 1.5, 0.0]
    hidden = [0.25, 2 * 0.25, 0.25, 0.25]
    wanted = [a - b for a, b in zip(weights, hidden, strict=True)]
    assert [found.by_word[n] for n in range(4)] == pytest.approx(wanted)
    assert found.difference == pytest.approx(sum(wanted))
    assert found.completeness_error == pytest.approx(0, abs=1e-6)
    assert found.largest(2, without=1) == [
        (2, pytest.approx(1.25)),
        (0, pytest.approx(-0.75)),
    ]


def test_shares_are_complete_on_a_real_network(detector: Detector):
    verdict = detector.read(LONG)
    piece = verdict.words[50].worst
    found = attribute(detector, verdict, piece)
    window = verdict.windows[piece.window]
    baseline = torch.tensor(
        [
            detector.source.tokenizer.mask_token_id if word is not None else int(i)
            for i, word in zip(window.ids[0], window.words, strict=True)
        ]
    )
    logits = detector.logits(torch.stack([window.ids[0], baseline]))[:, piece.position]
    assert found.difference == pytest.approx(float(logits[0] - logits[1]), abs=1e-5)
    error = abs(sum(found.by_word.values()) - found.difference)
    assert error == pytest.approx(found.completeness_error, abs=1e-5)
    assert error <= MAX_RELATIVE_ERROR * abs(found.difference) + 1e-5
    assert set(found.by_word) == {word for word in window.words if word is not None}


def test_the_threshold_is_what_a_fraction_of_clean_words_exceeds(plant):
    planted = plant({"축구": 1.0, "국회": 2.0, "[MASK]": 9.0})
    sentences = ["오늘 내일 새 큰 첫 다시 오늘 내일 새 축구"] * 19 + ["국회"] * 10
    low, found = thresholds_on(planted, sentences, "text", [0.5, 0.06])
    assert low.probability <= found.probability
    words = [word.probability for text in sentences for word in planted.read(text).words]
    assert found.false_alarms == sum(map(found.marks, words)) / len(words) <= 0.06
    assert found.found_fraction is not None
    with pytest.raises(ValueError, match="few has 10 words, 100 are needed"):
        thresholds_on(planted, ["오늘"] * 10, "few", [0.05])
    (without,) = thresholds_on(replace(planted, generator=None), sentences, "text", [0.06])
    assert without == replace(found, found_fraction=None)


def test_replaced_words_are_those_the_generator_changed(detector: Detector, plant):
    """A generator that always writes 축구: only words that were something else are counted."""
    tokenizer = detector.source.tokenizer
    only = torch.full((len(tokenizer),), -1e9)
    only[tokenizer.convert_tokens_to_ids("축구")] = 0.0

    def generator(input_ids: torch.Tensor) -> object:
        class Found:
            logits = only.expand(*input_ids.shape, -1)

        return Found

    planted = replace(plant({"축구": 1.0}), generator=generator)
    assert replaced_probabilities(planted, "축구 " * 60) == []
    found = replaced_probabilities(planted, "오늘 " * 60)
    assert 3 <= len(found) <= 40
    assert min(found) > 0.7  # 0.5 where nothing is replaced
    assert found == replaced_probabilities(planted, "오늘 " * 60)


def test_scripts():
    """And the page has the same patterns."""
    texts = {
        "Hangul": ("AI가", unicodedata.normalize("NFD", "각"), "ㅋㅋ", "ﾡ"),
        "Latin": ("Word 1", "ＡＢ", "é e"),
        "": ("漢字", "12", "カナ"),
    }
    assert {name: {script_of(text) for text in of} for name, of in texts.items()} == {
        name: {name} for name in texts
    }
    code = Path("benchmarks/inspect/page/detector.js").read_text(encoding="utf-8")
    for pattern in (threshold._HANGUL, threshold._LATIN):
        assert f"/{pattern.pattern}/.test(text)" in code


def test_what_is_no_pair_is_refused(model_folder: Path, tmp_path: Path, tokenizer):
    encoder = tmp_path / "encoder"
    AutoModel.from_pretrained(model_folder).save_pretrained(encoder)
    tokenizer.save_pretrained(encoder)
    with pytest.raises(ValueError, match="is no whole ElectraForPreTraining: it lacks"):
        open_detector(str(encoder))
    with pytest.raises(ValueError, match="is no whole ElectraForMaskedLM: it lacks"):
        open_detector(str(model_folder), str(model_folder))
    with pytest.raises(ValueError, match="no model folder out/none"):
        open_detector("out/none/discriminator")
