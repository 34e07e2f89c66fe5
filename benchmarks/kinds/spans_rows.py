"""Questions about contexts to features: a row a window, with the answer's place in it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.kind import Features
from benchmarks.kinds.spans_features import (
    Lengths,
    answer_pieces,
    find_answer,
    max_context,
    pair_template,
    split_texts,
    window_bounds,
)
from benchmarks.kinds.spans_files import QuestionExample

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
