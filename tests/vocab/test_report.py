import pytest

from benchmarks.sections.stages import _TABLES
from tests.pipeline.builders import write_documents
from tests.vocab.conftest import batches_of, vocab_options
from vocab.pretokenize import CUT
from vocab.report import SampleText, sample_report, word_figures
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import build_tokenizer
from vocab.train import MAX_SOURCES, _warn_of_unknown, sample_documents

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
    assert report.keys() == _TABLES["vocabulary"].keys()  # the report of a run shows them all


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


def test_many_sources_are_one_in_the_report_and_in_one_warning(tmp_path, tokenizer, caplog):
    names = ["a.kr", "a.kr", *(f"page {n}" for n in range(100))]
    rows = [{"text": "뷁 뷁", "source": name} for name in names]
    report = sample_report(tokenizer, sample_documents(write_documents(tmp_path, rows)))
    by_source = {row["source"]: row["num_words"] for row in report}
    assert (len(by_source), by_source["a.kr"]) == (MAX_SOURCES + 1, 4)
    assert sum(by_source.values()) == 2 * len(names)
    _warn_of_unknown(report, vocab_options(100))
    assert caplog.text.count("ko text of") == 1
