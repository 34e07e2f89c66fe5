import pytest

from tests.vocab.conftest import batches_of, count_words, marked, vocab_options
from vocab.learn import train_wordpiece
from vocab.pretokenize import CUT
from vocab.report import (
    SampleText,
    WordFigures,
    sample_report,
    vocab_report,
)
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import build_tokenizer

PIECES = [*SPECIAL_TOKENS, "학교", "##에서", "책", "##을", "a", "##b", "."]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(PIECES, lowercase=False)


def figures(words):
    found = WordFigures(PIECES)
    for batch in batches_of(words, "ko")():
        found.add(batch)
    return found


def test_figures_of_a_language_are_weighted_by_count():
    report = figures({"학교에서": 6, "책": 3, "뷁": 1, ".": 50}).languages()["ko"]
    assert report["num_words"] == 10  # the full stop is no word
    assert report["num_distinct_words"] == 3
    assert report["pieces_per_word"] == pytest.approx((6 * 2 + 3 + 1) / 10)
    assert report["characters_per_piece"] == pytest.approx((6 * 4 + 3 + 1) / 16)
    assert report["unk_word_fraction"] == pytest.approx(0.1)


def test_boundaries_that_pieces_miss_are_counted():
    # 학교|에서 and 책|을 are cut at their particle; 학교|를 is [UNK]: one piece, no border
    words = {f"학교{CUT}에서": 5, f"책{CUT}을": 2, f"학교{CUT}를": 3, "책": 90}
    report = figures(words).boundaries()
    assert report["num_distinct_words"] == 3
    assert report["boundary_fraction"] == pytest.approx(0.7)
    assert report["aligned_fraction"] == pytest.approx(0.7)
    assert report["most_frequent_crossed"] == ["학교|를"]


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


def test_morphemes_beat_whitespace_at_the_particles(documents):
    words = count_words([text for _, text in documents], lowercase=False)
    cut, figures = marked(words, "nominal"), {}
    for name, trained in (("whitespace", words), ("kiwi", cut)):
        pieces = train_wordpiece(batches_of(trained), vocab_options(600)).pieces
        tokenizer = build_tokenizer(pieces, lowercase=False)
        figures[name] = vocab_report(tokenizer, batches_of(cut, "ko"), [])["borders"]
    assert figures["kiwi"]["boundary_fraction"] > 0.95
    assert figures["kiwi"]["aligned_fraction"] > figures["whitespace"]["aligned_fraction"]
