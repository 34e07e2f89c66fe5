"""What the reader gives is what `transformers` gives, one text and one piece at a time."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import ElectraForMaskedLM, ElectraForPreTraining, ModernBertForTokenClassification

from benchmarks.analysis.reader import Reader, open_reader, windows_of

TEXTS = ["국회 증시 새", "오늘 내일 여행, 축구", "큰"]
LONG = " ".join(["오늘 국회 큰 반도체 축구 내일 여행"] * 15)  # of 105 pieces, a window has 30


@pytest.mark.parametrize(
    ("kind", "folder"),
    [(ElectraForPreTraining, "model_folder"), (ModernBertForTokenClassification, "modern_folder")],
)
def test_the_discriminators_logits(kind, folder: str, request: pytest.FixtureRequest):
    model = kind.from_pretrained(request.getfixturevalue(folder)).eval()
    reader = open_reader(str(request.getfixturevalue(folder)))
    for text in map(reader.cut, TEXTS):
        logits = reader.replaced_logits(text.ids)
        ids = reader.source.tokenizer(text.text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            expected = model(input_ids=ids).logits[0, 1:-1]
        if expected.dim() == 2:  # logits of labels
            expected = expected[:, 1] - expected[:, 0]
        np.testing.assert_allclose(logits, expected.numpy(), atol=1e-5)


def test_masked_logits_are_those_of_each_piece_masked_alone_or_together(reader, generator_folder):
    model = ElectraForMaskedLM.from_pretrained(generator_folder).eval()
    for text in map(reader.cut, TEXTS):
        for pieces in (*([piece] for piece in range(len(text.ids))), [*range(len(text.ids))]):
            ids = torch.tensor([*reader.before, *text.ids, *reader.after])
            places = [piece + 1 for piece in pieces]
            ids[places] = reader.source.tokenizer.mask_token_id
            with torch.no_grad():
                expected = model(ids[None]).logits[0, places]
            torch.testing.assert_close(reader.masked_logits(text.ids, pieces), expected)


def test_a_long_text_is_read_in_windows_with_surroundings(reader: Reader):
    text = reader.cut(LONG)
    logits = reader.replaced_logits(text.ids)
    for piece in range(len(text.ids)):
        window = reader.window_of(piece, len(text.ids))
        row = reader.row(text.ids, window)
        assert len(row) <= 32
        assert row[reader.column(piece, window)] == text.ids[piece]
        assert piece - window.shown.start >= 7 or window.shown.start == 0
        assert window.shown.stop - 1 - piece >= 7 or window.shown.stop == len(text.ids)
        with torch.no_grad():
            alone = reader.discriminator(input_ids=torch.from_numpy(row)[None]).logits[0]
        expected = float(alone[reader.column(piece, window)])
        assert logits[piece] == pytest.approx(expected, abs=1e-5)


@given(st.integers(1, 40), st.integers(0, 200))
def test_every_piece_is_judged_in_one_window_that_shows_it(size: int, num_pieces: int):
    windows = windows_of(num_pieces, size)
    assert [piece for window in windows for piece in window.judged] == list(range(num_pieces))
    for window in windows:
        assert len(window.shown) <= size
        assert not set(window.judged) - set(window.shown)
    steps = {b.shown.start - a.shown.start for a, b in pairwise(windows)}
    assert steps <= {size - size // 2}


def test_a_run_an_export_and_a_network_are_opened(model_folder, generator_folder, tmp_path):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "discriminator").symlink_to(model_folder)
    (tmp_path / "export" / "generator").symlink_to(generator_folder)
    for place in (tmp_path, tmp_path / "export", tmp_path / "export" / "discriminator"):
        assert open_reader(str(place)).generator is not None
    assert open_reader(str(model_folder)).generator is None
    with pytest.raises(ValueError, match="has no discriminator"):
        open_reader(str(generator_folder))
