"""Questions about contexts to features: a row a window, with the answer's place in it.

The windows of google-research/electra finetune/qa/qa_tasks.py `featurize`, on the offsets of any
fast tokenizer of `transformers` in place of words split at blanks.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.tasks.task import Example, Features

# Below this length of rows the stride shrinks with it; the official 128 holds at BERT's 384,
# ELECTRA's 512 and KLUE's 510.
FULL_LENGTH = 384
MIN_LENGTH = 16  # below this hardly a question fits, let alone a context


class GoldAnswer(NamedTuple):
    """An answer as it stands in the context."""

    text: str
    start: int  # character


@dataclass(frozen=True)
class QuestionExample(Example):
    """A question; `texts` are the context and the question, so that a split goes by contexts.

    `answers` are empty where there is none in the context, and None where they are not known.
    """

    answers: tuple[GoldAnswer, ...] | None = None
    question_type: int | None = None  # KLUE-MRC: 1, 2 or 3

    @property
    def context(self) -> str:
        """What the answer is looked for in."""
        return self.texts[0]

    @property
    def question(self) -> str:
        """What is asked."""
        return self.texts[1]


@dataclass(frozen=True)
class Lengths:
    """How rows are cut, in pieces."""

    row: int  # special tokens included
    question: int  # what is longer is cut off at the end
    stride: int  # from the start of one window to the start of the next


@dataclass(frozen=True)
class PairTemplate:
    """The special tokens that a tokenizer puts around the two texts of a pair."""

    before: tuple[int, ...]  # ids
    between: tuple[int, ...]
    behind: tuple[int, ...]
    types: tuple[int, ...]  # token types of: before, first text, between, second text, behind

    @property
    def num_special(self) -> int:
        """Tokens of a pair that are of neither text."""
        return len(self.before) + len(self.between) + len(self.behind)

    def join(
        self, question: NDArray[np.int32], context: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Ids and token types of one row, each (T,)."""
        parts = (self.before, question, self.between, context, self.behind)
        ids = np.concatenate([np.asarray(part, dtype=np.int32) for part in parts])
        types = np.repeat(np.asarray(self.types, dtype=np.int32), [len(part) for part in parts])
        return ids, types


@dataclass(frozen=True)
class Pieces:
    """A text in pieces, without special tokens."""

    ids: NDArray[np.int32]  # (n,)
    offsets: NDArray[np.int32]  # (n, 2): first character of each piece, and behind its last


def fitted_lengths(max_length: int, question: int, stride: int) -> Lengths:
    """The task's lengths at rows of `max_length` pieces; below `FULL_LENGTH` the stride shrinks.

    In proportion, so that the windows of an encoder of 128 positions overlap as those of 384 do.
    Raises `ValueError` below `MIN_LENGTH`.
    """
    if max_length < MIN_LENGTH:
        raise ValueError(
            f"rows of {max_length} tokens cannot hold a question and a part of its context; "
            f"give at least {MIN_LENGTH}"
        )
    fitted_stride = stride * min(max_length, FULL_LENGTH) // FULL_LENGTH
    # a question is cut only where it would leave less than half of the row to the context
    return Lengths(max_length, min(question, max_length // 2), max(1, fitted_stride))


def pair_template(tokenizer: Any) -> PairTemplate:
    """Read from an encoded pair, so that every model kind is served.

    Raises `ValueError` for a tokenizer without offsets, or one that begins a pair without a special
    token: the first position is where heads say that there is no answer.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} gives no character offsets, which reading comprehension "
            "needs; use a model with a fast tokenizer (tokenizer.json)"
        )
    encoded = tokenizer("0", "0", return_token_type_ids=True)
    sides = encoded.sequence_ids(0)
    if not sides or sides[0] is not None or 0 not in sides or 1 not in sides:
        raise ValueError(
            f"{type(tokenizer).__name__} encodes a pair as {sides} (None: a special token); "
            "needed: a special token, the question, special tokens, the context"
        )
    ids, types = encoded["input_ids"], encoded["token_type_ids"]
    first, second = sides.index(0), sides.index(1)
    behind_first = len(sides) - sides[::-1].index(0)
    behind_second = len(sides) - sides[::-1].index(1)
    between, behind = types[behind_first:second], types[behind_second:]
    return PairTemplate(
        before=tuple(ids[:first]),
        between=tuple(ids[behind_first:second]),
        behind=tuple(ids[behind_second:]),
        types=(
            types[0],
            types[first],
            between[0] if between else 0,
            types[second],
            behind[0] if behind else 0,
        ),
    )


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
    return {
        text: Pieces(np.array(ids, np.int32), np.array(offsets, np.int32).reshape(-1, 2))
        for text, ids, offsets in zip(
            distinct, encoded["input_ids"], encoded["offset_mapping"], strict=True
        )
    }


def window_bounds(num_pieces: int, room: int, stride: int) -> list[tuple[int, int]]:
    """First piece and one behind the last of each window of at most `room` pieces of a context.

    Starts are `stride` pieces apart (the `doc_stride` of ELECTRA and KLUE; in the later run_qa.py
    of `transformers` that is the overlap), but no piece is left out where a window is shorter than
    that. The last window is the first one that reaches the end. Of no pieces there is one empty
    window.
    """
    assert room > 0
    assert stride > 0
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
    nearest place is taken; None if it stands nowhere. The official code leaves such a question out
    of training at once.
    """
    kept = text.strip()
    if not kept:
        return None
    start += len(text) - len(text.lstrip())
    if not context.startswith(kept, start):
        places = [match.start() for match in re.finditer(f"(?={re.escape(kept)})", context)]
        if not places:
            return None
        start = min(places, key=lambda place: abs(place - start))
    return start, start + len(kept)


def answer_pieces(offsets: NDArray[np.int32], start: int, end: int) -> tuple[int, int] | None:
    """First and last piece that touch the characters from `start` to before `end`; None if none."""
    touching = (offsets[:, 1] > start) & (offsets[:, 0] < end) & (offsets[:, 1] > offsets[:, 0])
    found = np.flatnonzero(touching)
    return (int(found[0]), int(found[-1])) if len(found) else None


Place = tuple[int, int]  # first and last piece of an answer


def window_rows(
    questions: Sequence[QuestionExample], tokenizer: Any, lengths: Lengths, train: bool
) -> tuple[Features, int]:
    """Rows of all windows, and how many questions have none: their answer could not be found.

    Labels: `start` and `end`, the positions in the row of the first gold answer's first and last
    piece, both 0 where the window does not hold it whole; `impossible`, whether the question has no
    answer at all, in every window. Details: `first`, the position where the context begins,
    `offsets` (n, 2) of its pieces and whether each `is_max_context`. For predicting (not `train`)
    no answer is looked for and no question left out.
    """
    template = pair_template(tokenizer)
    contexts = split_texts([question.context for question in questions], tokenizer)
    asked = split_texts([question.question for question in questions], tokenizer)
    rows: dict[str, list[Any]] = defaultdict(list)
    num_cut, num_lost = 0, 0
    for number, question in enumerate(questions):
        context, ids = contexts[question.context], asked[question.question].ids
        num_cut += len(ids) > lengths.question
        ids = ids[: lengths.question]
        place = _answer_place(question, context.offsets) if train else None
        if train and question.answers and place is None:
            num_lost += 1
            continue
        bounds = window_bounds(
            len(context.ids), lengths.row - template.num_special - len(ids), lengths.stride
        )
        first = len(template.before) + len(ids) + len(template.between)
        for (start, end), is_max in zip(bounds, max_context(bounds), strict=True):
            row_ids, types = template.join(ids, context.ids[start:end])
            answer_start, answer_end = _within(place, start, end, first)
            rows["ids"].append(row_ids)
            rows["types"].append(types)
            rows["example"].append(number)
            rows["start"].append(answer_start)
            rows["end"].append(answer_end)
            rows["impossible"].append(not question.answers)
            rows["first"].append(first)
            rows["offsets"].append(context.offsets[start:end])
            rows["is_max_context"].append(is_max)
    features = Features(
        input_ids=rows["ids"],
        token_type_ids=rows["types"],
        example_of=np.array(rows["example"], dtype=np.int64),
        labels={name: rows[name] for name in ("start", "end", "impossible")},
        num_truncated=num_cut,
        details={name: rows[name] for name in ("first", "offsets", "is_max_context")},
    )
    return features, num_lost


def row_arrays(features: Features, rows: NDArray[np.int64], length: int) -> dict[str, NDArray[Any]]:
    """The labels (B,), and `answer_mask` (B, T): the context and the first position."""
    mask = np.zeros((len(rows), length), dtype=np.bool_)
    mask[:, 0] = True
    for position, row in enumerate(rows):
        first = features.details["first"][row]
        mask[position, first : first + len(features.details["offsets"][row])] = True
    labels = {
        name: np.array([values[row] for row in rows], dtype=np.int64)
        for name, values in features.labels.items()
    }
    return {**labels, "answer_mask": mask}


def _answer_place(question: QuestionExample, offsets: NDArray[np.int32]) -> Place | None:
    """Of the first gold answer, on which all official codes train; None without one."""
    if not question.answers:
        return None
    characters = find_answer(question.context, *question.answers[0])
    return characters and answer_pieces(offsets, *characters)


def _within(place: Place | None, start: int, end: int, first: int) -> Place:
    """The place as positions in a row whose window is [start, end) from position `first` on."""
    if place is None or place[0] < start or place[1] >= end:
        return 0, 0
    return place[0] - start + first, place[1] - start + first
