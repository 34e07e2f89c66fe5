"""KLUE-NER's official way between characters and pieces, beside the harness's own."""

import numpy as np
import pytest

from benchmarks.metrics.klue_ner_alignment import official_character_labels, official_piece_labels
from benchmarks.metrics.tagging import NER_LABELS, character_tags, inside_labels, piece_tags
from tests.golden.inputs import bert_tokenizer

O = len(NER_LABELS) - 1  # noqa: E741
SYLLABLES = "가나다라마바사아자차"
LENGTH = 64


def sentence(rng):
    words = ["".join(rng.choice(list(SYLLABLES), rng.integers(1, 6))) for _ in range(5)]
    text = " ".join(words)
    return text, rng.integers(0, len(NER_LABELS), len(text)).tolist()


def framed(tags, text, first, last):
    return [first, *(tag for tag, mark in zip(tags, text, strict=True) if mark != " "), last]


def test_without_an_unknown_word_both_ways_are_one():
    rng = np.random.default_rng(0)
    known = [*SYLLABLES, "가나", "다라마", "바사"]
    marked = [f"##{piece}" for piece in known]
    tokenizer = bert_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *known, *marked])
    for _ in range(50):
        text, tags = sentence(rng)
        predicted = rng.integers(0, len(NER_LABELS), LENGTH).tolist()
        offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        spans = [(0, 0), *offsets["offset_mapping"], (0, 0)]
        found = character_tags(predicted[: len(spans)], spans, len(text), inside_labels(NER_LABELS))
        ours = framed(found.tolist(), text, predicted[0], predicted[-1]), framed(tags, text, O, O)
        tokenize = tokenizer.tokenize
        assert official_character_labels(text, tags, predicted, tokenize, NER_LABELS) == ours
        pieces = official_piece_labels(text, tags, tokenize, LENGTH, O)
        assert pieces == piece_tags(tags, spans, O).tolist()


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
