import re
from collections import Counter

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.count_table import read_batches, read_word_counts
from vocab.pretokenize import CUT, WordRules
from vocab.word_counts import pack, unpack, write_word_counts

NOMINAL = WordRules(cuts="nominal")


def count(paths, output, options=(), rules=NOMINAL):
    write_word_counts(paths, output, rules, runner="local", beam_options=options)
    return output


def test_counts_equal_a_brute_force_counter(documents, write_documents, tmp_path):
    paths = write_documents(tmp_path / "clean", documents * 3, num_files=4, row_group_size=7)
    counts = read_word_counts(count(paths, tmp_path / "counts.parquet"))
    expected = {"ko": Counter(), "en": Counter()}
    for language, text in documents * 3:
        # enough for these sentences: words and single marks
        expected[language].update(re.findall(r"\w+|[^\w\s]", text))
    assert counts == expected


def test_words_stand_once_and_the_scratch_folder_is_gone(documents, write_documents, tmp_path):
    paths = write_documents(tmp_path / "clean", documents)
    table = pq.read_table(count(paths, tmp_path / "counts.parquet"))
    keys = list(zip(table["language"].to_pylist(), table["word"].to_pylist(), strict=True))
    assert len(keys) == len(set(keys)) > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean", "counts.parquet"]


def test_each_language_is_cut_by_its_own_rule(write_documents, tmp_path):
    documents = [("ko", "학교에서 먹었습니다"), ("en", "학교에서 school")]
    paths = write_documents(tmp_path / "clean", documents)
    rules = WordRules(cuts="none", language_cuts=(("ko", "nominal"),))
    words = {
        (language, word)
        for batch in read_batches(count(paths, tmp_path / "counts.parquet", rules=rules))
        for language, word in zip(batch.languages, batch.words, strict=True)
    }
    assert words == {
        ("ko", f"학교{CUT}에서"), ("ko", "먹었습니다"), ("en", "학교에서"), ("en", "school"),
    }  # fmt: skip


def test_bytes_do_not_depend_on_how_documents_lie_in_files(documents, write_documents, tmp_path):
    one = write_documents(tmp_path / "one", documents, num_files=1, row_group_size=100)
    many = write_documents(tmp_path / "many", documents, num_files=5, row_group_size=2)
    first, second = count(one, tmp_path / "a.parquet"), count(many[::-1], tmp_path / "b.parquet")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_runner(documents, write_documents, tmp_path):
    paths = write_documents(tmp_path / "clean", documents, num_files=3)
    first = count(paths, tmp_path / "a.parquet", ["--direct_running_mode=in_memory"])
    workers = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    second = count(paths, tmp_path / "b.parquet", workers)
    assert first.read_bytes() == second.read_bytes()


WORDS = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=5)


@given(st.dictionaries(st.tuples(st.sampled_from(["ko", "en"]), WORDS), st.integers(1), min_size=1))
def test_packed_counts_unpack(counts):
    assert dict(unpack(pack(counts.items()))) == counts
