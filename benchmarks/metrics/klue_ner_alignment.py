"""Characters to word pieces and back as KLUE-baseline does it for KLUE-NER, its mistake included.

klue_baseline/data/klue_ner.py `_create_examples` and models/named_entity_recognition.py
`validation_epoch_end`, `tokenizer_out_aligner`. Published scores are made with it. In a word with
an [UNK] beside pieces of several characters it loses characters, and the labels behind an [UNK] are
shifted (KLUE-baseline issue 9); `benchmarks.metrics.tagging`, which the harness scores with, finds
characters by the tokenizer's offsets instead. Without any [UNK] both are the same but for the
frame's end and for what is cut off: see `official_character_labels`.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto

from benchmarks.metrics.tagging import inside_labels
from electrify.system.outcome import UserError

Tokenize = Callable[[str], Sequence[str]]  # a word between blanks to its pieces
UNKNOWN_PIECE, CONTINUATION = "[UNK]", "##"


class _Slot(Enum):
    """One entry of a word as the official code lines it up with its pieces."""

    PIECE = auto()
    UNKNOWN = auto()  # the first character of an [UNK]
    IN_UNKNOWN = auto()  # a further one


def official_piece_labels(
    text: str,
    tags: Sequence[int],
    tokenize: Tokenize,
    max_length: int,
    outside: int,
) -> list[int]:
    """The gold label of every piece from [CLS] to [SEP], which both have `outside`.

    `tags` has one label a character of `text`, blanks included. In a word with an [UNK] every piece
    has the label of the word's first character. Raises `ValueError` where a tokenizer gives more
    characters than the text has.
    """
    of_characters = _without_blanks(text, tags)
    labels: list[int] = []
    position = 0
    for word in text.split(" "):
        pieces = tokenize(word)
        for piece in pieces:
            if position >= len(of_characters):
                raise UserError(f"the pieces of {text!r} have more characters than it has labels")
            labels.append(of_characters[position])
            if UNKNOWN_PIECE not in pieces:
                position += _width(piece)
        if UNKNOWN_PIECE in pieces:
            position += len(word)
    return [outside, *labels[: max_length - 2], outside]


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
    found, position = [predicted[0]], 1
    for word in text.split(" "):
        if position >= end:
            break
        pieces = tokenize(word)
        if UNKNOWN_PIECE in pieces:
            position = _spread_unknown(_slots(word, pieces), predicted, position, inside, found)
            continue
        for piece in pieces[: end - position]:
            label = predicted[position]
            found += [label, *[inside[label]] * (_width(piece) - 1)]
            position += 1
    found.append(predicted[-1])
    outside = labels.index("O")
    gold = [outside, *_without_blanks(text, tags)[: len(found) - 2], outside]
    if len(gold) != len(found):
        raise UserError(f"{len(found)} predicted labels for the {len(gold)} gold ones of {text!r}")
    return found, gold


def _spread_unknown(
    slots: Sequence[_Slot],
    predicted: Sequence[int],
    position: int,
    inside: Sequence[int],
    found: list[int],
) -> int:
    """Append the labels of a word with an [UNK] to `found`; gives the position to go on from.

    The position stays behind [UNK]s: that of an [UNK] is passed only when a known piece follows
    in the word, and that piece's own is then read twice.
    """
    after_unknown = False
    for slot in slots:
        if position >= len(predicted) - 1:
            break
        if slot is _Slot.UNKNOWN:
            found.append(predicted[position])
            after_unknown = True
        elif slot is _Slot.IN_UNKNOWN:
            found.append(inside[predicted[position]])
        elif after_unknown:
            position += 1
            found.append(predicted[position])
            after_unknown = False
        else:
            found.append(predicted[position])
            position += 1
    return position


def _slots(word: str, pieces: Sequence[str]) -> list[_Slot]:
    """The word's entries: an [UNK] goes on until the text comes to the next piece's first mark.

    A known piece is one entry whatever its length (the mistake); an [UNK] before another [UNK] is
    one character; the last piece goes on to the end of the word.
    """
    slots: list[_Slot] = []
    index, num_read, goes_on, last = 0, 0, False, len(pieces) - 1
    while num_read != len(word) or index != last:
        piece = pieces[index]
        if num_read > len(word):
            raise UserError(f"the pieces {list(pieces)} are longer than their word {word!r}")
        is_unknown = piece == UNKNOWN_PIECE
        slots.append(_Slot.IN_UNKNOWN if goes_on else _Slot.UNKNOWN if is_unknown else _Slot.PIECE)
        num_read += 1 if is_unknown else _width(piece)
        goes_on = False
        if is_unknown and index < last and pieces[index + 1] != UNKNOWN_PIECE:
            if num_read >= len(word):
                raise UserError(f"the pieces {list(pieces)} are longer than their word {word!r}")
            goes_on = word[num_read] != pieces[index + 1][0]
        index += not goes_on
        if index > last:
            index, goes_on = last, True
    return slots


def _width(piece: str) -> int:
    return len(piece.replace(CONTINUATION, ""))


def _without_blanks(text: str, tags: Sequence[int]) -> list[int]:
    return [tag for character, tag in zip(text, tags, strict=True) if character != " "]
