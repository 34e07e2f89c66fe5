import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from electrify.config.vocab import VocabConfig
from tests.vocab.conftest import batches_by_language, batches_of, count_words, marked, vocab_options
from vocab.learn import train_wordpiece
from vocab.pretokenize import CUT, is_isolated
from vocab.segment import SPECIAL_TOKENS, Segmenter
from vocab.shards.sequences import sampling_fractions
from vocab.words import count_characters, language_totals, weighted


@pytest.fixture(scope="module")
def words(documents):
    return count_words([text for _, text in documents], lowercase=False)


def train(words, size=600, first_pieces=SPECIAL_TOKENS, **options):
    return train_wordpiece(batches_of(words), vocab_options(size, **options), first_pieces)


def characters(words):
    return count_characters(batches_of(words), 10**9)[0]


def test_every_covered_character_has_its_two_forms(words):
    pieces = set(train(words))
    for character in characters(words):
        assert character in pieces
        assert (f"##{character}" in pieces) != is_isolated(character)


def test_no_piece_crosses_a_boundary(words):
    starts = {word.split(CUT)[0] for word in marked(words)}
    anywhere = {part for word in marked(words) for part in word.split(CUT)}
    for piece in set(train(marked(words))) - {*SPECIAL_TOKENS, *characters(words)}:
        if piece.startswith("##"):
            assert any(piece[2:] in part for part in anywhere), piece
        else:
            assert any(part.startswith(piece) for part in starts), piece


COUNTED = st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 9), min_size=3)


@pytest.mark.parametrize("few", [0, 400])
@pytest.mark.parametrize("num_indexed", [2, 20_000])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=COUNTED, factor=st.sampled_from([1, 2**31, 2**40, 2**45]))
def test_merges_equal_a_brute_force_count(monkeypatch, num_indexed, few, words, factor):
    """Counts beyond 32 bits change nothing."""
    monkeypatch.setattr("vocab.learn._FEW", few)
    monkeypatch.setattr("vocab.learn._PAIRS_INDEXED", num_indexed)
    size = 5 + 2 * len(characters(words)) + 6
    expected = brute_force(words, size)
    words = {word: count * factor for word, count in words.items()}
    assert train(words, size=len(expected)) == expected


def brute_force(words, size):
    units = {word: [word[0], *(f"##{c}" for c in word[1:])] for word in words}
    plain = sorted(characters(words))
    pieces = [*SPECIAL_TOKENS, *plain, *(f"##{c}" for c in plain)]
    while len(pieces) < size:
        pairs = Counter()
        for word, unit in units.items():
            for pair in itertools.pairwise(unit):
                pairs[pair] += words[word]
        if not pairs:
            break
        ids = {piece: index for index, piece in enumerate(pieces)}
        best = min(pairs, key=lambda pair: (-pairs[pair], ids[pair[0]], ids[pair[1]]))
        new = best[0] + best[1].removeprefix("##")
        for word, unit in units.items():
            merged, index = [], 0
            while index < len(unit):
                hit = tuple(unit[index : index + 2]) == best
                merged.append(new if hit else unit[index])
                index += 2 if hit else 1
            units[word] = merged
        if new not in pieces:
            pieces.append(new)
    return pieces


def test_training_is_deterministic_and_ignores_the_order_of_words(words):
    options = vocab_options(500, surplus=0.2)
    for listed in (words, marked(words)):
        batches = batches_of(listed)
        first = train_wordpiece(batches, options)

        def backwards(batches=batches):
            for batch in batches():
                yield batch._replace(words=batch.words[::-1], counts=batch.counts[::-1])

        assert first == train_wordpiece(backwards, options)


def test_a_size_beyond_the_text_names_the_reachable_size(words):
    with pytest.raises(ValueError, match=r"vocab\.size = 5000, but the text yields \d+") as error:
        train(words, size=5000)
    reachable = int(str(error.value).split("yields ")[1].split()[0])
    assert len(train(words, size=reachable)) == reachable
    with pytest.raises(ValueError, match=r"vocab\.min_frequency = 5:"):
        train(words, size=reachable, min_frequency=5)


def test_characters_fill_what_merges_do_not():
    """Ideographs stand alone, so no pair of them is merged."""
    ideographs = {chr(0x4E00 + n): 10_000 // (n + 1) + 2 for n in range(3000)}
    words = ideographs | {chr(0x6000 + n): 1 for n in range(500)}
    pieces = train(words, size=2500, min_frequency=2, limit_alphabet=None)
    ranked = sorted(ideographs, key=lambda character: (-words[character], character))
    assert set(pieces) == {*SPECIAL_TOKENS, *ranked[:2495]}
    options = vocab_options(4000, min_frequency=2, limit_alphabet=None)
    assert set(ideographs) <= set(train_wordpiece(batches_of(words), options, may_be_fewer=True))
    with pytest.raises(ValueError, match="the text yields 1005 pieces"):
        train(words, size=2500, limit_alphabet=1000)


def test_a_size_that_follows_the_text_is_at_most_what_it_yields(words):
    sizes = [VocabConfig().sized(number, 5).size for number in (10, 1e6, 9e6, 64e6, 1e12)]
    assert sizes == [4000, 4000, 12_000, 32_000, 32_000]
    assert VocabConfig(size=700).sized(1e9, 5).size == 700
    assert VocabConfig(extend="vocab").sized(1e9, 7000).size == 7000
    options = vocab_options(5000)
    pieces = train_wordpiece(batches_of(words), options, may_be_fewer=True)
    assert pieces == train(words, size=len(pieces))


@settings(max_examples=30)
@given(COUNTED, st.sampled_from([0.0, 0.4]))
def test_first_pieces_keep_their_ids(words, surplus):
    base = [*SPECIAL_TOKENS, "[unused0]", "zz", "##zz", "a", "##a", "ab"]
    size = len({*base, *brute_force(words, 0)})
    pieces = train(words, size, first_pieces=tuple(base), surplus=surplus)
    assert pieces[: len(base)] == base
    assert len(pieces) == len(set(pieces)) == size
    assert train(words, len(base), tuple(base), extend="old", surplus=surplus) == base


def test_new_characters_take_at_most_half_of_what_is_added_most_frequent_first(words):
    seen = characters(words)
    base = (*SPECIAL_TOKENS, *sorted(seen, key=seen.get)[:30])
    for added in (40, 41):
        extended = train(words, len(base) + added, first_pieces=base, extend="old", surplus=0.2)
        assert tuple(extended[: len(base)]) == base
        assert len(set(extended)) == len(base) + added
        new = [p for p in extended[len(base) :] if len(p.removeprefix("##")) == 1]
        assert added // 2 - 1 <= len(new) <= added // 2
        covered = {piece for piece in new if len(piece) == 1}
        left = seen.keys() - covered - {*base}
        assert min(seen[c] for c in covered) >= max(seen[c] for c in left)


def test_a_rare_character_takes_no_piece_of_an_extended_vocabulary():
    words, base = {"가나": 700_000, "다": 50, "라": 2}, (*SPECIAL_TOKENS, "가", "##나")
    options = vocab_options(len(base) + 8, extend="old")
    extended = train_wordpiece(batches_of(words), options, base, may_be_fewer=True)
    assert {"다"} <= {*extended}
    assert not {"라", "##라"} & {*extended}


def test_pieces_that_cross_boundaries_are_pruned_first():
    # 명의 was seen as a word of its own, so ##명의 is learnt, and taken across that of 3명|의
    words = {f"{n}명{CUT}의": 9 for n in "일이삼사오"} | {"차명의": 500, "가차명의": 90}
    for size, surplus, max_crossing, is_kept in (
        *((26, 0.0, 0.1, True), (25, 0.05, 0.1, False), (25, 0.05, 1.0, True)),
    ):
        options = vocab_options(size, surplus=surplus, max_crossing=max_crossing)
        pieces = train_wordpiece(batches_of(words), options)
        assert ("##명의" in pieces) == is_kept


def test_weighted_counts_follow_the_temperature():
    words = {"ko": {"가": 9000, "나": 999, "다": 1}, "en": {"a": 90, "b": 10}}
    batches = batches_by_language(words, 3)
    sizes, _ = language_totals(batches)
    for temperature in (1.0, 0.3, 0.0):
        reweighted = weighted(batches, sampling_fractions(sizes, temperature), sizes)
        totals, distinct = language_totals(reweighted)
        assert totals["ko"] / totals["en"] == pytest.approx(100**temperature, rel=1e-3)
        assert distinct == {"en": 2, "ko": 3}
    found = {w: n for of in reweighted() for w, n in zip(of.words, of.counts, strict=True)}
    assert found == {"가": 9000, "나": 999, "다": 1, "a": 9000, "b": 1000}


PIECES = ["[UNK]", "가", "나", "가나", "##가", "##나", "##가나", "a", "##a"]
PART = st.text("가나ab", min_size=1, max_size=3)


@given(st.lists(st.lists(PART, min_size=1, max_size=3), min_size=1, max_size=6))
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
