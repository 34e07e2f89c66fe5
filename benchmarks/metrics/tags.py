"""Metrics of sequence tagging: KLUE-NER as KLUE-baseline computes it, and seqeval's usual ones.

Every metric takes the label ids of all sentences in one chain, as `framed` makes them for KLUE, and
the names of the labels, and returns 0..1. Official: `entity_macro_f1` and
`character_macro_f1` (klue_baseline/metrics/functional.py:42 and :58), `seqeval_micro_f1` (seqeval
1.2.2).

Labels are by character, predictions by word piece (klue_baseline/models/named_entity_recognition.py
and data/klue_ner.py). A piece learns the label of its first character, [CLS] and [SEP] learn "O". A
predicted B- of a piece means B- on its first character and I- on the rest. Blanks are not scored,
and every sentence stands between the predictions of the first and the last position of its padded
row, gold "O". That code loses characters beside an [UNK] and does not score what the length limit
cuts off (`official_character_labels`); by the tokenizer's offsets, that counts as predicted "O".
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.labels import Labels, checked, mean_f1
from electrify.system.outcome import UserError

OUTSIDE = "O"
Entity = tuple[str, int, int]  # type, first position, position behind the last
Tags = NDArray[np.int64]
Span = tuple[int, int]  # characters of a piece: first, and behind the last


def piece_tags(tags: Sequence[int], spans: Sequence[Span], outside: int) -> Tags:
    """The label of each piece's first character; `outside` for pieces of no character."""
    return np.array([tags[first] if last > first else outside for first, last in spans], np.int64)


def character_tags(
    predicted: Sequence[int], spans: Sequence[Span], num_characters: int, inside: Sequence[int]
) -> Tags:
    """Labels of the characters from those of the pieces; `inside[label]` continues a label. The
    last of `inside` is the label of characters that no piece covers."""
    tags = np.full(num_characters, inside[-1], dtype=np.int64)
    for label, (first, last) in zip(predicted, spans, strict=True):
        if last > first:
            tags[first:last] = inside[label]
            tags[first] = label
    return tags


def inside_labels(labels: Sequence[str]) -> list[int]:
    """For each label the one that continues it: B-PS and I-PS give I-PS, O gives O. The last entry
    is that of O, which stands last among the labels."""
    return [
        labels.index("I" + label[1:]) if label[0] == "B" else n for n, label in enumerate(labels)
    ]


def framed(tags: Tags, text: str, first: int, last: int) -> Tags:
    """Labels as they are scored: without those of blanks, between the two of the frame."""
    is_scored = np.array([not character.isspace() for character in text], dtype=bool)
    return np.concatenate(([first], tags[is_scored], [last])).astype(np.int64)


def entities(tags: Sequence[str], is_lenient: bool = False) -> set[Entity]:
    """(type, start, end) of each B- with the I- of its type behind it: strict IOB2.

    An I- with neither in front of it is no entity (seqeval, mode "strict", scheme IOB2); where
    `is_lenient`, it starts one (seqeval's default, after the CoNLL script).
    """
    spans, start, kind = set(), -1, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        if kind and tag != f"I-{kind}":
            spans.add((kind, start, index))
            kind = ""
        if not kind and tag != OUTSIDE and (is_lenient or tag.startswith("B-")):
            start, kind = index, tag[2:]
    return spans


def entity_macro_f1(gold: Labels, predicted: Labels, labels: Sequence[str]) -> float:
    """KLUE-NER: mean over entity types of the F1 of whole entities, strict IOB2. Types in neither
    gold nor predictions are left out; `nan` if there are none at all."""
    return _entity_f1(gold, predicted, labels, "entity_macro_f1")


def seqeval_micro_f1(gold: Labels, predicted: Labels, labels: Sequence[str]) -> float:
    """F1 of all entities together, read leniently (see `entities`); 0 if there are none at all. An
    I- where a B- should be is forgiven: the score may be 98 where strict reading finds 0."""
    return _entity_f1(gold, predicted, labels, "seqeval_micro_f1")


def entity_micro_f1(gold: Labels, predicted: Labels, labels: Sequence[str]) -> float:
    """F1 of all entities together, strict IOB2; 0 if there are none at all (as seqeval strict)."""
    return _entity_f1(gold, predicted, labels, "entity_micro_f1")


def character_macro_f1(gold: Labels, predicted: Labels, labels: Sequence[str]) -> float:
    """KLUE-NER: mean F1 over all 13 labels of characters, O too, one that is in neither side as 1.
    The paper says without O; this is what the official code does (KLUE-baseline pull request 7)."""
    return mean_f1(gold, predicted, range(len(labels)), absent=1.0)


def entity_f1_sampler(
    gold: Labels, predicted: Labels, labels: Sequence[str], lengths: Sequence[int], metric: str
) -> Callable[[NDArray[np.int64]], float]:
    """A function from positions of examples (n,), repeats allowed, to the F1 of their entities.

    The labels are those of all examples in one chain, `lengths` of them each. An entity belongs to
    the example in which it begins. `metric` is the name of one of the four functions above.
    """
    gold, predicted = checked(gold, predicted)
    is_lenient, is_macro = metric.startswith("seqeval"), "macro" in metric
    asked, claimed = (entities([labels[n] for n in s], is_lenient) for s in (gold, predicted))
    types = {name: number for number, name in enumerate(sorted({t for t, *_ in asked | claimed}))}
    example_of = np.repeat(np.arange(len(lengths)), lengths)
    right, occurrences = np.zeros((2, len(lengths), len(types)))
    for entity_type, start, _ in (*asked, *claimed):
        occurrences[example_of[start], types[entity_type]] += 1
    for entity_type, start, _ in asked & claimed:
        right[example_of[start], types[entity_type]] += 1

    def score(positions: NDArray[np.int64]) -> float:
        hits, total = right[positions].sum(axis=0), occurrences[positions].sum(axis=0)
        if not is_macro:
            return float(2 * hits.sum() / max(1, total.sum()))
        return float(np.mean(2 * hits[total > 0] / total[total > 0])) if total.any() else math.nan

    return score


def _entity_f1(gold: Labels, predicted: Labels, labels: Sequence[str], metric: str) -> float:
    score = entity_f1_sampler(gold, predicted, labels, [len(gold)], metric)
    return score(np.zeros(1, dtype=np.int64))


# Word pieces to characters as KLUE-baseline does it, its mistake included (klue_ner.py
# `_create_examples`, named_entity_recognition.py `validation_epoch_end`, `tokenizer_out_aligner`).
# Published scores are made with it. In a word with an [UNK] beside pieces of several characters it
# loses characters, and the labels behind an [UNK] are shifted (KLUE-baseline issue 9). Without any
# [UNK] it equals the tokenizer's offsets, but for the frame's end and for what is cut off.

Tokenize = Callable[[str], Sequence[str]]  # a word between blanks to its pieces
UNKNOWN_PIECE, CONTINUATION = "[UNK]", "##"


# an entry of a word as the official code lines it up with its pieces: a known piece, the first
# character of an [UNK], or a further one
_PIECE, _UNKNOWN, _IN_UNKNOWN = "piece", "unknown", "in unknown"


def official_character_labels(
    text: str,
    tags: Sequence[int],
    predicted: Sequence[int],
    tokenize: Tokenize,
    labels: Sequence[str],
) -> tuple[list[int], list[int]]:
    """Predicted and gold labels of the characters that are scored, framed.

    `predicted` has one label for every position of the padded input (the maximum length). The frame
    is the label of position 0 and that of the last padded position, not of [SEP]; gold is "O".
    Characters cut off are not scored. Raises `ValueError` where the official code stops or never
    ends.
    """
    inside, end = inside_labels(labels), len(predicted) - 1
    written, position = [predicted[0]], 1
    for word in text.split(" "):
        if position >= end:
            break
        pieces = tokenize(word)
        if UNKNOWN_PIECE in pieces:
            position = _spread_unknown(_slots(word, pieces), predicted, position, inside, written)
            continue
        for piece in pieces[: end - position]:
            label = predicted[position]
            written += [label, *[inside[label]] * (piece_width(piece) - 1)]
            position += 1
    written.append(predicted[-1])
    outside = labels.index("O")
    gold = [outside, *without_blanks(text, tags)[: len(written) - 2], outside]
    if len(gold) != len(written):
        raise UserError(f"{len(written)} predicted labels, {len(gold)} gold ones of {text!r}")
    return written, gold


def _spread_unknown(
    slots: Sequence[str],
    predicted: Sequence[int],
    position: int,
    inside: Sequence[int],
    written: list[int],
) -> int:
    """Append the labels of a word with an [UNK] to `found`; gives the next position.

    The position stays behind [UNK]s: that of an [UNK] is passed only when a known piece follows
    in the word, and that piece's own is then read twice.
    """
    after_unknown = False
    for slot in slots:
        if position >= len(predicted) - 1:
            break
        if slot == _UNKNOWN:
            written.append(predicted[position])
            after_unknown = True
        elif slot == _IN_UNKNOWN:
            written.append(inside[predicted[position]])
        elif after_unknown:
            position += 1
            written.append(predicted[position])
            after_unknown = False
        else:
            written.append(predicted[position])
            position += 1
    return position


def _slots(word: str, pieces: Sequence[str]) -> list[str]:
    """The word's entries: an [UNK] lasts until the text comes to the next piece's first mark.

    A known piece is one entry whatever its length (the mistake); an [UNK] before another [UNK] is
    one character; the last piece lasts to the end of the word.
    """
    slots: list[str] = []
    index, num_read, goes_on, last = 0, 0, False, len(pieces) - 1
    while num_read != len(word) or index != last:
        piece = pieces[index]
        if num_read > len(word):
            raise UserError(f"the pieces {list(pieces)} are longer than their word {word!r}")
        is_unknown = piece == UNKNOWN_PIECE
        slots.append(_IN_UNKNOWN if goes_on else _UNKNOWN if is_unknown else _PIECE)
        num_read += 1 if is_unknown else piece_width(piece)
        goes_on = False
        if is_unknown and index < last and pieces[index + 1] != UNKNOWN_PIECE:
            if num_read >= len(word):
                raise UserError(f"the pieces {list(pieces)} are longer than their word {word!r}")
            goes_on = word[num_read] != pieces[index + 1][0]
        index += not goes_on
        if index > last:
            index, goes_on = last, True
    return slots


def piece_width(piece: str) -> int:
    """Characters of a piece."""
    return len(piece.replace(CONTINUATION, ""))


def without_blanks(text: str, tags: Sequence[int]) -> list[int]:
    """The labels of the characters that are no blanks."""
    return [tag for character, tag in zip(text, tags, strict=True) if character != " "]
