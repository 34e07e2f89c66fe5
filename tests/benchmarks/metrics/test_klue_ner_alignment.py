"""KLUE-NER's official way between characters and pieces, beside the harness's own."""

import numpy as np
import pytest

from benchmarks.golden.inputs import word_pieces
from benchmarks.metrics.klue_ner_alignment import official_character_labels, official_piece_labels
from benchmarks.metrics.tagging import NER_LABELS, character_tags, inside_labels, piece_tags

O = len(NER_LABELS) - 1  # noqa: E741
SYLLABLES = "가나다라마바사아자차"
LENGTH = 64


def tokenizer_of(known):
    pieces = [*known, *(f"##{piece}" for piece in known)]
    return word_pieces(["[PAD]", "[UNK]", *pieces])


def sentence(rng):
    words = ["".join(rng.choice(list(SYLLABLES), rng.integers(1, 6))) for _ in range(5)]
    text = " ".join(words)
    return text, rng.integers(0, len(NER_LABELS), len(text)).tolist()


def both_ways(text, tags, tokenizer, rng):
    """(predicted, gold) of the official code and of ours, from the same labels of pieces."""

    def tokenize(word):
        return tokenizer.encode(word, add_special_tokens=False).tokens

    predicted = rng.integers(0, len(NER_LABELS), LENGTH).tolist()
    official = official_character_labels(text, tags, predicted, tokenize, NER_LABELS)
    spans = [(0, 0), *tokenizer.encode(text, add_special_tokens=False).offsets, (0, 0)]
    found = character_tags(predicted[: len(spans)], spans, len(text), inside_labels(NER_LABELS))
    ours = framed(found.tolist(), text, predicted[0], predicted[-1])
    pieces = official_piece_labels(text, tags, tokenize, LENGTH, O)
    assert len(pieces) == len(spans)
    ours_and_gold = ours, framed(tags, text, O, O)
    return official, ours_and_gold, (pieces, piece_tags(tags, spans, O).tolist())


def framed(tags, text, first, last):
    return [first, *(tag for tag, mark in zip(tags, text, strict=True) if mark != " "), last]


def test_without_an_unknown_word_both_ways_are_one():
    rng = np.random.default_rng(0)
    tokenizer = tokenizer_of([*SYLLABLES, "가나", "다라마", "바사"])
    for _ in range(50):
        official, ours, (official_pieces, our_pieces) = both_ways(*sentence(rng), tokenizer, rng)
        assert official == ours
        assert official_pieces == our_pieces


def test_behind_an_unknown_word_the_official_labels_are_of_the_pieces_before():
    rng = np.random.default_rng(1)
    tokenizer = tokenizer_of(["가", "나", "다"])
    official, ours, _ = both_ways("나 짱 가", [O, O, O, O, 0], tokenizer, rng)
    assert official[1] == ours[1]
    assert official[0][:3] == ours[0][:3]
    assert official[0][3] == official[0][2]  # the label of the unknown word twice
    assert ours[0][3] != ours[0][2]


def test_a_long_piece_beside_an_unknown_one_loses_characters():
    tokenizer = tokenizer_of(["가나다", "."])
    official, ours, _ = both_ways("짱.가나다", [O] * 5, tokenizer, np.random.default_rng(2))
    assert (len(official[0]), len(ours[0])) == (3 + 2, 5 + 2)


def test_what_is_cut_off_is_not_scored():
    tokenizer = tokenizer_of(list(SYLLABLES))

    def tokenize(word):
        return tokenizer.encode(word, add_special_tokens=False).tokens

    tags = list(range(6))
    predicted = [O, 0, 1, 2]  # [CLS], two pieces and the last position
    found, gold = official_character_labels("가나 다라마", tags, predicted, tokenize, NER_LABELS)
    assert found == [O, 0, 1, 2]
    assert gold == [O, 0, 1, O]
    assert official_piece_labels("가나 다라마", tags, tokenize, 4, O) == [O, 0, 1, O]


@pytest.mark.parametrize(
    ("word", "pieces", "message"),
    [
        ("가나", ["[UNK]", "##가나다"], "are longer than their word '가나'"),
        ("가", ["[UNK]", "."], "are longer than their word '가'"),
        ("가나", ["가나다"], "5 predicted labels for the 4 gold ones of"),
    ],
)
def test_pieces_that_do_not_make_up_their_word_are_refused(word, pieces, message):
    predicted = [O] * 8
    with pytest.raises(ValueError, match=message):
        official_character_labels(word, [O] * len(word), predicted, lambda _: pieces, NER_LABELS)
    if pieces[0] != "[UNK]":
        with pytest.raises(ValueError, match="more characters than it has labels"):
            official_piece_labels(word, [O] * 2, lambda _: [*pieces, "라"], 8, O)
