import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from vocab.pretokenize import count_words, is_isolated, morphemes
from vocab.wordpiece import (
    SPECIAL_TOKENS,
    characters,
    frequent_words,
    symbols,
    train_wordpiece,
    training_units,
)


@pytest.fixture(scope="module")
def words(documents):
    return count_words([text for _, text in documents], lowercase=False)


def train(words, size=600, use_morphemes=False, min_frequency=1, limit_alphabet=6000):
    return train_wordpiece(words, size, use_morphemes, min_frequency, limit_alphabet)


def merged_pieces(pieces):
    """Those of several characters, in the order of merging."""
    return [p for p in pieces if len(p.removeprefix("##")) > 1 and p not in SPECIAL_TOKENS]


def reference_merges(words, size):
    """What `tokenizers`' own trainer merges, given each word as often as it counts."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    repeated = (" ".join([word] * count) for word, count in sorted(words.items()))
    tokenizer.train_from_iterator(repeated, trainer)
    vocabulary = tokenizer.get_vocab()
    return merged_pieces(sorted(vocabulary, key=vocabulary.get))


def test_whitespace_vocabulary_equals_the_reference_trainer():
    # counts so far apart that ties, which each trainer breaks in its own way, are rare
    stems = ["학교", "도서관", "시장", "공원", "회사", "서울", "read", "walk", "talk", "write"]
    endings = ["에서", "에서는", "으로", "까지", "ing", "er", "ers", "s"]
    words = {
        stem + ending: 1000 + 97 * row * row + 1013 * column + 7 * row * column
        for row, stem in enumerate(stems)
        for column, ending in enumerate(endings)
    }
    ours = merged_pieces(train(words, size=165, min_frequency=2).pieces)
    theirs = reference_merges(words, size=160)
    num_merges = min(len(ours), len(theirs))
    assert 80 < num_merges < len(words) + 21  # before everything is merged
    assert len(set(ours[:num_merges]) & set(theirs[:num_merges])) >= 0.99 * num_merges


def test_counts_work_as_repetition():
    words = {"abab": 3, "ab": 2, "b": 7, "ba": 1}
    # a ##b stands 5 times; then ab ##a 3 times, which ties with ##a ##b, spelt by later ids
    pieces = train(words, size=11).pieces[len(SPECIAL_TOKENS) :]
    assert pieces == ["a", "b", "##a", "##b", "ab", "##ab"]


def test_special_tokens_then_characters_then_exactly_size(words):
    for use_morphemes in (False, True):
        pieces = train(words, use_morphemes=use_morphemes).pieces
        assert len(pieces) == len(set(pieces)) == 600
        assert tuple(pieces[:5]) == SPECIAL_TOKENS


def test_every_covered_character_has_its_two_forms(words):
    vocabulary = train(words)
    pieces = set(vocabulary.pieces)
    assert vocabulary.num_characters == vocabulary.num_characters_seen > 100
    for character in characters(words):
        assert character in pieces
        assert (f"##{character}" in pieces) != is_isolated(character)


def test_the_rarest_characters_go_first(words):
    seen = characters(words)
    vocabulary = train(words, size=240, limit_alphabet=50)
    covered = {piece for piece in vocabulary.pieces if len(piece) == 1}
    assert len(covered) == vocabulary.num_characters == 50
    assert min(seen[c] for c in covered) >= max(seen[c] for c in seen if c not in covered)


def test_characters_need_room(words, caplog):
    with pytest.raises(ValueError, match=r"characters take \d+ of vocab\.size = 200 pieces"):
        train(words, size=200)
    train(words, size=450)
    assert "few are left for longer pieces" in caplog.text
    caplog.clear()
    train(words, size=200, limit_alphabet=40)
    assert not caplog.text


def test_no_piece_crosses_a_morpheme_border(words):
    units = training_units(words, use_morphemes=True)
    pieces = train(words, use_morphemes=True).pieces[len(SPECIAL_TOKENS) :]
    for piece in pieces:
        if len(piece.removeprefix("##")) == 1:
            continue
        inside = piece.startswith("##")
        bare = piece.removeprefix("##")
        # a plain piece begins an initial unit; a ## piece lies in any unit, not at a word's start
        assert any(
            unit.removeprefix("##").find(bare, 0 if unit.startswith("##") else 1) >= 0
            if inside
            else unit.startswith(bare)
            for unit in units
        ), piece


def test_particles_and_endings_are_learnt_as_continuations(words):
    pieces = set(train(words, use_morphemes=True).pieces)
    assert {"##에서", "##습니다"} <= pieces
    assert "학교에서" not in pieces
    assert "##했다" not in pieces


def test_units_keep_all_counts(words):
    units = training_units(words, use_morphemes=True)
    assert units["##에서"] == sum(
        count * morphemes(word)[1:].count("에서") for word, count in words.items()
    )
    spelled = Counter()
    for unit, count in units.items():
        for character in unit.removeprefix("##") if len(unit) > 2 else unit:
            spelled[character] += count
    assert spelled == characters(words)


@given(st.text("가나ab#", min_size=1, max_size=6))
def test_symbols_spell_the_unit(unit):
    bare = unit[2:] if unit.startswith("##") and len(unit) > 2 else unit
    spelled = symbols(unit)
    assert "".join(s.removeprefix("##") if len(s) > 2 else s for s in spelled) == bare
    assert all(symbol.startswith("##") for symbol in spelled[1:])


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 9), min_size=3))
def test_merges_equal_a_brute_force_count(words):
    size = 5 + 2 * len(characters(words)) + 4
    expected = brute_force(words, size)
    assert train(words, size=len(expected)).pieces == expected


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
    backwards = dict(sorted(words.items(), reverse=True))
    for use_morphemes in (False, True):
        first = train(words, use_morphemes=use_morphemes)
        assert first == train(backwards, use_morphemes=use_morphemes)


def test_a_size_beyond_the_text_names_the_reachable_size(words):
    with pytest.raises(ValueError, match=r"vocab\.size = 5000, but the text yields \d+") as error:
        train(words, size=5000)
    reachable = int(str(error.value).split("yields ")[1].split()[0])
    assert len(train(words, size=reachable).pieces) == reachable
    with pytest.raises(ValueError, match=r"vocab\.min_frequency = 5 "):
        train(words, size=reachable, min_frequency=5)


def test_rare_words_are_left_out_by_count_not_by_spelling():
    words = {"a": 5, "b": 3, "c": 3, "d": 3, "e": 1}
    assert frequent_words(words, 5) == (words, 1)
    assert frequent_words(words, 4) == ({"a": 5, "b": 3, "c": 3, "d": 3}, 2)
    assert frequent_words(words, 2) == ({"a": 5}, 4)
