"""Texts to token ids: rows of a text or a pair, and windows of a question and its context.

A long context has a row a window, cut as google-research/electra finetune/qa/qa_tasks.py
`featurize` does, on the offsets of a fast tokenizer.
"""

import unicodedata
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.tasks.rows import GoldAnswer, find_starts
from benchmarks.tasks.task import Example, Features
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
        return Features.from_rows([], details={"spans": []} if with_spans else {})
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
    details = {}
    if with_spans:
        offsets = [np.array(row, np.int64).reshape(-1, 2) for row in encoded["offset_mapping"]]
        rows = zip(columns[0], offsets, strict=True)
        details["spans"] = [behind_blanks(t, whole_characters(t, row)) for t, row in rows]
    num_cut = num_truncated(columns, ids, tokenizer, max_length)
    types = encoded["token_type_ids"]
    if len(columns) == 2 and tokenizer.is_fast and not any(map(any, types)):  # as of RoBERTa
        is_second = ([number == 1 for number in encoded.sequence_ids(n)] for n in range(len(ids)))
        types = [np.maximum.accumulate(row).astype(np.int64) for row in is_second]
    return Features.from_rows(ids, types, num_truncated=num_cut, details=details)


def require_offsets(tokenizer: Any) -> None:
    """`UserError` for a tokenizer that does not say which characters or words its pieces are of."""
    if not tokenizer.is_fast:
        raise UserError(
            f"{type(tokenizer).__name__} does not say where its pieces are, which tags and trees "
            "need; use a model with a fast tokenizer (tokenizer.json)"
        )


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
    starts = np.where(is_part, len(text), np.arange(len(text) + 1))
    ends = np.minimum.accumulate(starts[::-1])[::-1]  # from each the first that is no part
    whole = offsets.copy()
    whole[is_piece, 1] = ends[offsets[is_piece, 1]]
    return whole


def behind_blanks(text: str, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Offsets (n, 2) of pieces from their first character that is no blank: byte-level pieces and
    those of SentencePiece begin with the blank before a word. One of blanks alone holds nothing."""
    words = [len(text) if letter.isspace() else at for at, letter in enumerate(text)]
    following = np.minimum.accumulate([*words, len(text)][::-1])[::-1]
    starts, ends = offsets.T
    return np.stack([np.minimum(np.maximum(following[starts], starts), ends), ends], axis=1)


def _continues(character: str) -> bool:
    is_jamo = "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7fb"
    return is_jamo or unicodedata.category(character).startswith("M")


def word_positions(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """First and last piece of every word, from the characters of the pieces of the sentence.

    The sentence is the words with one blank between. A piece is of the word its last character
    is of (byte-level pieces begin with the blank before a word). A word of which the tokenizer
    leaves nothing stands at (0, 0), where the root is read.
    """
    ends = np.cumsum([len(word) + 1 for word in words]) - 1  # behind the last character of each
    positions = [(0, 0)] * len(words)
    for piece, (first, last) in enumerate(spans):
        if last > first:  # not of [CLS] and [SEP]
            word = int(np.searchsorted(ends, last, side="left"))
            start, _ = positions[word]
            positions[word] = (start or piece, piece)
    return positions


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


# Below this length of rows the stride shrinks with it; the official 128 holds at BERT's 384,
# ELECTRA's 512 and KLUE's 510.
FULL_LENGTH = 384
MIN_LENGTH = 16  # below this hardly a question fits, let alone a context


@dataclass(frozen=True)
class QuestionExample(Example):
    """A question; `texts` are the context and the question, so that a split goes by contexts.
    `answers` are empty where there is none in the context, and None where they are not known."""

    answers: tuple[GoldAnswer, ...] | None = None
    question_type: int | None = None  # KLUE-MRC: 1, 2 or 3

    @property
    def context(self) -> str:
        return self.texts[0]

    @property
    def question(self) -> str:
        return self.texts[1]


class Lengths(NamedTuple):
    """How rows are cut, in pieces."""

    row: int  # special tokens included
    question: int  # the end of a longer one is cut off
    stride: int  # from the start of one window to the start of the next


def fitted_lengths(max_length: int, question: int, stride: int) -> Lengths:
    """The task's lengths at rows of `max_length` pieces; below `FULL_LENGTH` the stride shrinks.

    In proportion, so that the windows of an encoder of 128 positions overlap as those of 384 do.
    Raises `ValueError` below `MIN_LENGTH`.
    """
    if max_length < MIN_LENGTH:
        raise UserError(
            f"rows of {max_length} tokens cannot hold a question and a part of its context; "
            f"give at least {MIN_LENGTH}"
        )
    fitted_stride = stride * min(max_length, FULL_LENGTH) // FULL_LENGTH
    # a question is cut only where it would leave less than half of the row to the context
    return Lengths(max_length, min(question, max_length // 2), max(1, fitted_stride))


class PairTemplate(NamedTuple):
    """The special tokens that a tokenizer puts around the two texts of a pair."""

    before: list[int]  # ids
    between: list[int]
    behind: list[int]
    types: list[int]  # token types of: before, first text, between, second text, behind

    def join(
        self, question: NDArray[np.int32], context: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Ids and token types of one row, each (T,)."""
        parts = (self.before, question, self.between, context, self.behind)
        ids = np.concatenate([np.asarray(part, dtype=np.int32) for part in parts])
        types = np.repeat(np.asarray(self.types, dtype=np.int32), [len(part) for part in parts])
        return ids, types


def pair_template(tokenizer: Any) -> PairTemplate:
    """Read from an encoded pair, so that every model kind is served.

    Raises `ValueError` for a tokenizer without offsets, or one that begins a pair without a special
    token: the first position is where heads say that there is no answer.
    """
    encoded = tokenizer("0", "0", return_token_type_ids=True)
    sides = encoded.sequence_ids(0) if getattr(tokenizer, "is_fast", False) else []
    if not sides or sides[0] is not None or 0 not in sides or 1 not in sides:
        raise UserError(
            f"{type(tokenizer).__name__} cannot encode a question and a context for reading "
            "comprehension; use a model with a fast tokenizer (tokenizer.json) that puts special "
            "tokens before, between and behind two texts"
        )
    first, second = ([n for n, side in enumerate(sides) if side == text] for text in (0, 1))
    cuts = (0, first[0], first[-1] + 1, second[0], second[-1] + 1, len(sides))
    before, _, between, _, behind = (encoded["input_ids"][a:b] for a, b in pairwise(cuts))
    types = [encoded["token_type_ids"][a] if a < b else 0 for a, b in pairwise(cuts)]
    return PairTemplate(before, between, behind, types)


class Window(NamedTuple):
    """Where the context stands in a row of pieces."""

    first: int  # position of the first piece of the context; at least 1
    # of each piece of the context: no other window has more context around it
    is_max_context: NDArray[np.bool_]
    offsets: NDArray[np.int32]  # (n, 2) of its pieces, as `Pieces` has them


class Pieces(NamedTuple):
    """A text in pieces, without special tokens."""

    ids: NDArray[np.int32]  # (n,)
    offsets: NDArray[np.int32]  # (n, 2): first character of each piece, and behind its last


def split_texts(texts: Sequence[str], tokenizer: Any) -> dict[str, Pieces]:
    """Each different text in pieces; a context of five questions is split once."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    encoded = tokenizer(
        distinct,
        add_special_tokens=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    columns = zip(distinct, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    return {
        text: Pieces(
            np.array(ids, np.int32),
            whole_characters(text, np.array(offsets).reshape(-1, 2)).astype(np.int32),
        )
        for text, ids, offsets in columns
    }


def window_bounds(num_pieces: int, room: int, stride: int) -> list[tuple[int, int]]:
    """First piece and one behind the last of each window of at most `room` pieces of a context.

    Starts are `stride` pieces apart (the `doc_stride` of ELECTRA and KLUE; in the later run_qa.py
    of `transformers` that is the overlap), but no piece is left out where a window is shorter than
    that. The last window is the first one that reaches the end. Of no pieces there is one empty
    window.
    """
    bounds = [(0, min(room, num_pieces))]
    while bounds[-1][1] < num_pieces:
        start = bounds[-1][0] + min(room, stride)
        bounds.append((start, min(start + room, num_pieces)))
    return bounds


def max_context(bounds: Sequence[tuple[int, int]]) -> list[NDArray[np.bool_]]:
    """By window, which of its pieces have their largest context there.

    The context of a piece is the smaller number of pieces on its two sides, plus .01 of the
    window's length; of equal ones the first window has it.
    """
    num_pieces = bounds[-1][1]
    best = np.full(num_pieces, -1.0)
    owner = np.zeros(num_pieces, dtype=np.int64)
    for number, (start, end) in enumerate(bounds):
        position = np.arange(start, end)
        context = np.minimum(position - start, end - 1 - position) + 0.01 * (end - start)
        better = context > best[start:end]
        best[start:end][better] = context[better]
        owner[start:end][better] = number
    return [owner[start:end] == number for number, (start, end) in enumerate(bounds)]


def find_answer(context: str, text: str, start: int) -> tuple[int, int] | None:
    """The characters of an answer: first, and behind the last; white space at its ends left out.

    Where the text does not stand at `start` (escaped characters shift the starts of some sets), the
    nearest one is taken; None if it stands nowhere.
    """
    kept = text.strip()
    if not kept:
        return None
    start += len(text) - len(text.lstrip())
    if not context.startswith(kept, start):
        starts = find_starts(kept, context)
        if not starts:
            return None
        start = min(starts, key=lambda other: abs(other - start))
    return start, start + len(kept)


def answer_pieces(offsets: NDArray[np.int32], start: int, end: int) -> tuple[int, int] | None:
    """First and last piece that touch the characters from `start` to before `end`; None if none."""
    touching = (offsets[:, 1] > start) & (offsets[:, 0] < end) & (offsets[:, 1] > offsets[:, 0])
    pieces = np.flatnonzero(touching)
    return (int(pieces[0]), int(pieces[-1])) if len(pieces) else None


def window_rows(
    questions: Sequence[QuestionExample], tokenizer: Any, lengths: Lengths, train: bool
) -> tuple[Features, int]:
    """Rows of all windows, and how many questions have none: their answer could not be found.

    Labels: `start` and `end`, the positions of the first gold answer's first and last piece, both 0
    where the window does not hold it whole; `impossible`, whether the question has no answer.
    Details: `windows`. For predicting no answer is looked for and no question left out.
    """
    template = pair_template(tokenizer)
    num_special = len(template.before) + len(template.between) + len(template.behind)
    contexts = split_texts([question.context for question in questions], tokenizer)
    asked = split_texts([question.question for question in questions], tokenizer)
    rows: list[tuple[Any, ...]] = []
    num_cut, num_lost = 0, 0
    for number, question in enumerate(questions):
        context, ids = contexts[question.context], asked[question.question].ids
        num_cut += len(ids) > lengths.question
        ids = ids[: lengths.question]
        gold = _gold_pieces(question, context.offsets) if train else None
        if train and question.answers and gold is None:
            num_lost += 1
            continue
        bounds = window_bounds(
            len(context.ids), lengths.row - num_special - len(ids), lengths.stride
        )
        first = len(template.before) + len(ids) + len(template.between)
        for (start, end), is_max in zip(bounds, max_context(bounds), strict=True):
            row_ids, types = template.join(ids, context.ids[start:end])
            answer = (0, 0)
            if gold is not None and start <= gold[0] and gold[1] < end:
                answer = (gold[0] - start + first, gold[1] - start + first)
            window = Window(first, is_max, context.offsets[start:end])
            rows.append((row_ids, types, number, *answer, not question.answers, window))

    columns: list[list[Any]] = list(map(list, zip(*rows, strict=True))) or [[]] * 7
    features = Features(
        columns[0],
        columns[1],
        np.array(columns[2], dtype=np.int64),
        dict(zip(("start", "end", "impossible"), columns[3:6], strict=True)),
        num_cut,
        {"windows": columns[6]},
    )
    return features, num_lost


def _gold_pieces(question: QuestionExample, offsets: NDArray[np.int32]) -> tuple[int, int] | None:
    """First and last piece of the first gold answer, on which all official codes train."""
    if not question.answers:
        return None
    characters = find_answer(question.context, *question.answers[0])
    return characters and answer_pieces(offsets, *characters)
