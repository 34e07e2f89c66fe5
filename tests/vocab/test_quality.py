import json
import math

import pytest

from vocab.pretokenize import count_words
from vocab.quality import language_report, longest, report_page, script_of, vocab_report
from vocab.tokenizer import build_tokenizer
from vocab.wordpiece import SPECIAL_TOKENS, train_wordpiece

PIECES = [*SPECIAL_TOKENS, "학교", "##에서", "책", "##을", "a", "##b", "."]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(PIECES, lowercase=False)


def test_figures_of_a_language_are_weighted_by_count(tokenizer):
    report = language_report(tokenizer, {"학교에서": 6, "책": 3, "뷁": 1, ".": 50})
    assert report["num_words"] == 10  # the full stop is no word
    assert report["num_distinct_words"] == 3
    assert report["pieces_per_word"] == pytest.approx((6 * 2 + 3 + 1) / 10)
    assert report["characters_per_piece"] == pytest.approx((6 * 4 + 3 + 1) / 16)
    assert report["unk_fraction"] == pytest.approx(0.1)


def test_morpheme_borders_that_pieces_miss_are_counted(tokenizer):
    # 학교에서 and 책을 are cut at their particle; 학교를 is [UNK]: one piece, no border
    report = vocab_report(tokenizer, {"ko": {"학교에서": 5, "책을": 2, "학교를": 3}}, [])
    assert report["morphemes"]["num_distinct_words"] == 3
    assert report["morphemes"]["boundary_fraction"] == pytest.approx(0.7)
    assert report["morphemes"]["aligned_fraction"] == pytest.approx(0.7)


def test_text_without_hangul_has_no_morpheme_figures(tokenizer):
    assert "morphemes" not in vocab_report(tokenizer, {"en": {"ab": 2}}, [])


@pytest.mark.parametrize(
    ("piece", "script"),
    [
        ("##에서", "Hangul"),
        ("ㅋㅋ", "Hangul"),
        ("##ab", "Latin"),
        ("漢", "Han"),
        ("##と", "Kana"),
        ("カ", "Kana"),
        ("##12", "digit"),
        ("…", "punctuation or symbol"),
        ("##", "punctuation or symbol"),
        ("[MASK]", "special token"),
    ],
)
def test_script_of_a_piece(piece, script):
    assert script_of(piece) == script


def test_longest_pieces_do_not_count_the_prefix():
    assert longest(["##abc", "abcd", "[MASK]"]) == ["abcd", "##abc"]


def test_morphemes_beat_whitespace_at_the_particles(documents):
    words = count_words([text for _, text in documents], lowercase=False)
    share = {}
    for use_morphemes in (False, True):
        pieces = train_wordpiece(words, 600, use_morphemes, 1, 6000).pieces
        tokenizer = build_tokenizer(pieces, lowercase=False)
        share[use_morphemes] = vocab_report(tokenizer, {"ko": words}, [])["morphemes"]
    assert share[True]["boundary_fraction"] > 0.95
    assert share[True]["aligned_fraction"] > share[False]["aligned_fraction"]


def test_the_page_shows_segmentations_and_escapes_text(tokenizer, tmp_path):
    report = vocab_report(tokenizer, {"ko": {"학교에서": 2}}, [("ko", "학교에서 <b>")])
    report_page(report, "run").write(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "학교 ##에서" in page
    assert "<b>" not in page
    assert math.isfinite(json.loads(json.dumps(report))["languages"]["ko"]["pieces_per_word"])
