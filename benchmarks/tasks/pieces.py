"""The kinds of tasks; here what they share: texts to token ids, and rows to one array."""

import unicodedata
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tasks.task import Features
from electrify.system.outcome import UserError

IGNORED_LABEL = -100  # of padding, which has no part in the loss


def encode_texts(
    texts: Sequence[tuple[str, ...]], tokenizer: Any, max_length: int, with_spans: bool = False
) -> Features:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP] of each row, the longer text cut first; further texts
    follow b as [SEP] c. With spans the detail `spans` has the characters of each piece, (T, 2): the
    first, and behind the last."""
    if with_spans:
        require_offsets(tokenizer)
    if not texts:
        return Features.of_rows([], details={"spans": []})
    separator = f" {tokenizer.sep_token or tokenizer.eos_token or ''} "
    pairs = [(row[0], separator.join(row[1:])) if len(row) > 2 else row for row in texts]
    columns = [list(column) for column in zip(*pairs, strict=True)]
    encoded = tokenizer(
        *columns,
        truncation="longest_first",
        max_length=max_length,
        return_token_type_ids=True,
        return_attention_mask=False,
        return_offsets_mapping=with_spans,
    )
    ids = encoded["input_ids"]
    spans = [
        behind_blanks(text, whole_characters(text, np.array(row, dtype=np.int64).reshape(-1, 2)))
        for text, row in zip(columns[0], encoded.get("offset_mapping", []), strict=with_spans)
    ]
    num_cut = num_truncated(columns, ids, tokenizer, max_length)
    types = encoded["token_type_ids"]
    if len(columns) == 2 and tokenizer.is_fast and not any(map(any, types)):  # as of RoBERTa
        types = [_sides(encoded.sequence_ids(row)) for row in range(len(ids))]
    return Features.of_rows(ids, types, num_truncated=num_cut, details={"spans": spans})


def require_offsets(tokenizer: Any) -> None:
    """`UserError` for a tokenizer that does not say which characters or words its pieces are of."""
    if not tokenizer.is_fast:
        raise UserError(
            f"{type(tokenizer).__name__} does not say where its pieces stand, which tags and trees "
            "need; use a model with a fast tokenizer (tokenizer.json)"
        )


def _sides(sequences: Sequence[int | None]) -> NDArray[np.int64]:
    """0 up to the first piece of the second text, 1 from there on."""
    return np.maximum.accumulate([int(number == 1) for number in sequences])


def num_truncated(
    columns: Sequence[Sequence[str]], ids: Sequence[Sized], tokenizer: Any, max_length: int
) -> int:
    """How many rows are cut; only full ones may be, so the others need no second look."""
    full = [row for row, of_row in enumerate(ids) if len(of_row) >= max_length]
    if not full:
        return 0
    whole = tokenizer(*([column[row] for row in full] for column in columns), verbose=False)
    return sum(len(of_row) > max_length for of_row in whole["input_ids"])


def whole_characters(text: str, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Offsets (n, 2) of pieces whose last character is whole. Of one that the tokenizer's
    normaliser composes, as of Hangul in NFD, `tokenizers` gives the first part alone."""
    if unicodedata.is_normalized("NFC", text):
        return offsets
    is_part = np.array([*map(_continues, text), False])
    is_piece = offsets[:, 1] > offsets[:, 0]
    is_part[offsets[is_piece, 0]] = False
    places = np.where(is_part, len(text), np.arange(len(text) + 1))
    ends = np.minimum.accumulate(places[::-1])[::-1]  # the first place that is no part, from each
    whole = offsets.copy()
    whole[is_piece, 1] = ends[offsets[is_piece, 1]]
    return whole


def behind_blanks(text: str, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Offsets (n, 2) of pieces from their first character that is no blank: byte-level pieces and
    those of SentencePiece begin with the blank before a word. One of blanks alone holds nothing."""
    places = [len(text) if letter.isspace() else at for at, letter in enumerate(text)]
    following = np.minimum.accumulate([*places, len(text)][::-1])[::-1]
    starts, ends = offsets.T
    return np.stack([np.minimum(np.maximum(following[starts], starts), ends), ends], axis=1)


def _continues(character: str) -> bool:
    is_jamo = "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7fb"
    return is_jamo or unicodedata.category(character).startswith("M")


def padded(
    rows: Sequence[Sequence[Any] | NDArray[Any]], length: int, value: float, dtype: type
) -> NDArray[Any]:
    """Rows of different length as one array (rows, length), filled up with `value`."""
    array: NDArray[Any] = np.full((len(rows), length), value, dtype=dtype)
    for position, row in enumerate(rows):
        array[position, : len(row)] = row
    return array


def continuation_prefix(tokenizer: Any) -> str | None:
    """The "##" of a WordPiece tokenizer; None for any other."""
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    return getattr(model, "continuing_subword_prefix", None) or None
