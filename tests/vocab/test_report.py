import pytest

from benchmarks.sections.stages import _TABLES
from electrify.config.vocab import VocabConfig
from tests.pipeline.builders import write_documents
from tests.vocab.conftest import vocab_options
from vocab.report import SampleText, sample_sums, vocab_report
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import build_tokenizer, save_tokenizer
from vocab.train import MAX_SOURCES, _warn_of_unknown, enlarged, sample_documents

PIECES = [*SPECIAL_TOKENS, "학교", "##에서", "책", "##을", "a", "##b", "."]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(PIECES, lowercase=False)


def test_samples_are_measured_by_language_and_source(tokenizer):
    texts = ("news", "학교에서 책을."), ("blog", "뷁"), ("news", "책")
    samples = [SampleText("ko", *of) for of in texts]
    report = vocab_report(tokenizer, samples, [("ko", "책을")])
    blog, news = report["sources"]
    assert (blog["source"], blog["unk_piece_fraction"]) == ("blog", 1)
    assert (news["num_words"], news["num_pieces"]) == (3, 6)
    assert news["pieces_per_word"] == pytest.approx(6 / 3, abs=1e-6)
    korean = report["languages"]["ko"]
    assert korean["pieces_per_word"] == pytest.approx(7 / 4)
    assert korean["bytes_per_piece"] == pytest.approx((3 * 8 + 2) / 7, abs=1e-6)
    assert korean.keys() >= _TABLES["vocabulary"].keys()  # the report of a run shows them
    assert report["samples"][0]["pieces"] == ["책", "##을"]


def test_every_language_is_in_the_sample(tmp_path, monkeypatch):
    """Also one whose row group is none of those that are spread over all."""
    monkeypatch.setattr("vocab.train._SAMPLE_ROW_GROUPS", 2)
    languages = ["ko", "en", "ko", "ko"]
    paths = [
        write_documents(tmp_path / str(n), [{"text": "a", "language": language, "source": "b"}])[0]
        for n, language in enumerate(languages)
    ]
    assert [sample.language for sample in sample_documents(paths)] == ["ko", "en", "ko"]


def test_many_sources_are_one_in_the_report_and_in_one_warning(tmp_path, tokenizer, caplog):
    names = ["a.kr", "a.kr", *(f"page {n}" for n in range(100))]
    rows = [{"text": "뷁 뷁", "source": name} for name in names]
    sums = sample_sums(tokenizer, sample_documents(write_documents(tmp_path, rows)))
    by_source = {source: row["num_words"] for (_, source), row in sums.items()}
    assert (len(by_source), by_source["a.kr"]) == (MAX_SOURCES + 1, 4)
    assert sum(by_source.values()) == 2 * len(names)
    listed = [{"language": "ko", "source": source} | row for (_, source), row in sums.items()]
    _warn_of_unknown(listed, vocab_options(100))
    assert caplog.text.count("ko text of") == 1


@pytest.mark.parametrize(("num_known", "num_unknown", "grows"), [(2, 98, True), (98, 2, False)])
def test_a_vocabulary_grows_by_the_share_of_the_text_that_it_lacks(
    tmp_path, tokenizer, num_known, num_unknown, grows
):
    """However many sources that text has."""
    save_tokenizer(tokenizer, tmp_path, lowercase=False)
    known, unknown = "학교에서 책을. " * 9_000, "뷁 뷁 뷁 뷁 뷁 " * 9_000
    rare, often = (known, unknown) if grows else (unknown, known)
    num_rare, num_often = sorted((num_known, num_unknown))
    rows = [{"text": often, "source": "one"}] * num_often
    rows += [{"text": rare, "source": f"source {n}"} for n in range(num_rare)]
    documents = write_documents(tmp_path / "documents", rows)
    options = enlarged(VocabConfig(extend=str(tmp_path)), documents)
    assert options.size == (len(PIECES) + len(PIECES) // 3 if grows else "auto")
