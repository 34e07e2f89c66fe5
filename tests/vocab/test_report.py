import pytest

from tests.vocab.conftest import batches_of
from vocab.pretokenize import CUT
from vocab.report import (
    SampleText,
    sample_report,
    word_figures,
)
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import build_tokenizer

PIECES = [*SPECIAL_TOKENS, "학교", "##에서", "책", "##을", "a", "##b", "."]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(PIECES, lowercase=False)


def test_figures_of_a_language_are_weighted_by_count():
    words = {f"학교{CUT}에서": 6, "책": 3, "뷁": 1, ".": 50}
    report = word_figures(PIECES, batches_of(words, "ko"))["ko"]
    assert report["num_words"] == 10  # the full stop is no word
    assert report["num_distinct_words"] == 3
    assert report["pieces_per_word"] == pytest.approx((6 * 2 + 3 + 1) / 10)
    assert report["characters_per_piece"] == pytest.approx((6 * 4 + 3 + 1) / 16)
    assert report["unk_word_fraction"] == pytest.approx(0.1)


def test_samples_are_measured_by_language_and_source(tokenizer):
    samples = [
        SampleText("ko", "news", "학교에서 책을."),
        SampleText("ko", "blog", "뷁"),
        SampleText("ko", "news", "책"),
    ]
    blog, news = sample_report(tokenizer, samples)
    assert (blog["source"], blog["unk_piece_fraction"]) == ("blog", 1)
    assert news["num_words"] == 3
    assert news["pieces_per_word"] == pytest.approx(6 / 3, abs=1e-6)
