import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.pretokenize import CUT
from vocab.segment import Segmenter
from vocab.shards.sequences import sampling_fractions
from vocab.words import WordBatch, language_totals, weighted


def table(words):
    """{language: {word: count}} as batches, all languages mixed in each."""
    rows = sorted((word, language, n) for language in words for word, n in words[language].items())

    def read():
        for start in range(0, len(rows), 3):
            listed = rows[start : start + 3]
            counts = np.array([n for _, _, n in listed], np.int64)
            yield WordBatch([w for w, _, _ in listed], counts, [of for _, of, _ in listed])

    return read


def reweighted(words, temperature):
    batches = table(words)
    totals = language_totals(batches)[0]
    return weighted(batches, sampling_fractions(totals, temperature), totals)


def test_weighted_counts_follow_the_temperature():
    words = {"ko": {"가": 9000, "나": 999, "다": 1}, "en": {"a": 90, "b": 10}}
    for temperature in (0.0, 0.3, 1.0):
        totals, distinct = language_totals(reweighted(words, temperature))
        assert totals["ko"] / totals["en"] == pytest.approx(100**temperature, rel=1e-3)
        assert distinct == {"en": 2, "ko": 3}
    batches = list(reweighted(words, 0.0)())
    found = {w: n for batch in batches for w, n in zip(batch.words, batch.counts, strict=True)}
    assert found == {"가": 9000, "나": 999, "다": 1, "a": 9000, "b": 1000}


PIECES = ["[UNK]", "가", "나", "가나", "##가", "##나", "##가나", "a", "##a"]


@given(
    st.lists(
        st.lists(st.text("가나ab", min_size=1, max_size=3), min_size=1, max_size=3),
        min_size=1,
        max_size=6,
    )
)
def test_segments_agree_with_longest_match(words):
    found = Segmenter(PIECES).segment([CUT.join(parts) for parts in words])
    expected_ids, crossed = [], set()
    for row, parts in enumerate(words):
        pieces, ends = longest_match("".join(parts))
        expected_ids += [PIECES.index(piece) for piece in pieces]
        position = 0
        for part in parts[:-1]:
            position += len(part)
            if position not in ends:
                crossed.add((row, position))
    assert found.ids.tolist() == expected_ids
    starts = np.cumsum([0, *(len("".join(parts)) for parts in words)])
    pieces, cuts = found.crossing()
    rows = found.cut_word[cuts].tolist()
    positions = found.cut[cuts].tolist()
    assert {(r, p - int(starts[r])) for r, p in zip(rows, positions, strict=True)} == crossed
    assert found.word[pieces].tolist() == rows


def longest_match(word):
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = [e for e in range(start + 1, len(word) + 1) if prefix + word[start:e] in PIECES]
        if not ends:
            return ["[UNK]"], {len(word)}
        pieces.append(prefix + word[start : ends[-1]])
        start = ends[-1]
    sizes = [len(piece.removeprefix("##")) for piece in pieces]
    return pieces, set(np.cumsum(sizes).tolist())
