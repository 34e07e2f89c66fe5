"""Questions whose answer is a piece of a context: SQuAD, KorQuAD, XQuAD and KLUE-MRC.

A long context has a row a window; the windows of a question are put together again by the official
post-processing (`spans_decode`), and the answer is the text of the context between the first
character of its first piece and the last of its last. The official code goes from pieces back to
words by comparing texts, which is the same wherever it finds the pieces again.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import klue_mrc, korquad, squad, weighted
from benchmarks.tasks.kind import (
    Example,
    Failure,
    Features,
    Kind,
    Line,
    Outputs,
    Pair,
    mostly_wrong,
)
from benchmarks.tasks.kinds.spans_decode import (
    Answer,
    SpanTable,
    Window,
    electra_answer,
    klue_answer,
    spans_of_beam,
    spans_of_logits,
)
from benchmarks.tasks.kinds.spans_features import fitted_lengths, row_arrays, window_rows
from benchmarks.tasks.kinds.spans_files import QuestionExample, hub_questions, read_questions
from benchmarks.tasks.task import Task
from electrify.system.progress import warn

if TYPE_CHECKING:
    from torch import Generator, nn

    from benchmarks.tasks.heads.linear import Head


Scorer = Literal["squad-1.1", "squad-2.0", "klue-mrc", "korquad-1.0"]
NO_ANSWER, ANSWER = "no answer", "answer"
_AROUND = 160  # characters of a context shown on each side of an answer
_NORMALIZE: dict[Scorer, Callable[[str], str]] = {
    "squad-1.1": squad.normalize_answer,
    "squad-2.0": squad.normalize_answer,
    "klue-mrc": klue_mrc.normalize_answer,
    "korquad-1.0": korquad.normalize_answer,
}
NUM_CANDIDATES_KEPT = 5  # of the n best texts, in a line


@dataclass(frozen=True)
class Spans(Kind):
    """The settings of a reading task, by default those of google-research/electra.

    With head "joint" (`JointHead`, the paper's) "no answer" is what the classifier says, with
    "span" (`SpanHead`) it is the first position. A question is left without answer where the odds
    of that are greater than `null_threshold`.
    """

    units = "questions"
    failures_quote = True

    scorer: Scorer
    head: Literal["joint", "span"]
    null_threshold: float = 0.0
    max_question_length: int = 64  # pieces
    stride: int = 128  # pieces from window to window
    max_answer_length: int = 30  # pieces
    n_best_size: int = 20
    beam_size: int = 20
    answerable_weight: float = 0.5  # of the classifier's loss

    @property
    def has_unanswerable(self) -> bool:
        """Whether there are questions without an answer."""
        return self.scorer in ("squad-2.0", "klue-mrc")

    def read(self, task: Task, split: str, path: Path) -> Iterator[Example]:
        """Questions in file order; `ValueError` names article, paragraph and question."""
        return read_questions(task, split, path, self.has_unanswerable)

    def from_hub(
        self, task: Task, split: str, rows: Iterable[Mapping[str, Any]]
    ) -> Iterator[Example]:
        """Rows as `datasets` has SQuAD and KLUE-MRC: one a question."""
        return hub_questions(task, split, rows, self.has_unanswerable)

    def featurize(
        self,
        task: Task,
        examples: Sequence[Example],
        tokenizer: Any,
        max_length: int,
        train: bool,
    ) -> Features:
        """A row a window; what is cut off is the end of long questions.

        In training every window is a row, at position 0 where the answer is not in it, and a
        question whose answer stands nowhere in its context is left out with a warning.
        """
        lengths = fitted_lengths(max_length, self.max_question_length, self.stride)
        questions = [_question(example) for example in examples]
        features, num_lost = window_rows(questions, tokenizer, lengths, train)
        if num_lost:
            warn(
                f"{task.name}: the answers of {num_lost:,} of {len(examples):,} training questions "
                "do not stand in their contexts; these questions are left out"
            )
        return features

    def label_arrays(
        self, features: Features, rows: NDArray[np.int64], length: int
    ) -> dict[str, NDArray[Any]]:
        """`start`, `end` and `impossible` (B,), and `answer_mask` (B, T): where they may be."""
        return row_arrays(features, rows, length)

    def make_head(
        self, task: Task, encoder: "nn.Module", tokenizer: Any, generator: "Generator"
    ) -> "Head":
        """The head that is set, with a classifier only where questions may have no answer."""
        from benchmarks.tasks.heads.spans import JointHead, SpanHead

        if self.head == "span":
            return SpanHead(encoder, generator)
        weight = self.answerable_weight if self.has_unanswerable else None
        return JointHead(encoder, generator, self.beam_size, weight)

    def lines(
        self,
        task: Task,
        examples: Sequence[Example],
        features: Features,
        outputs: Sequence[Outputs],
    ) -> list[Line]:
        """The answer of each question and its best candidates.

        Where questions may have no answer, "answer" is the best text, "null_odds" what speaks
        against any, and "prediction" what the task's threshold makes of the two.
        """
        rows_of: dict[int, list[int]] = defaultdict(list)
        for row, number in enumerate(features.example_of.tolist()):
            rows_of[number].append(row)
        found = []
        for number, example in enumerate(examples):
            answer = self._answer(example, features, outputs, rows_of[number])
            found.append(self._line(_question(example), answer))
        return found

    def score(self, task: Task, lines: Sequence[Line]) -> dict[str, float]:
        """Every value of the task's official script, and corrected ones beside."""
        if not lines:
            names = self.score(task, _ONE_OF_EACH[: 2 if self.has_unanswerable else 1])
            return dict.fromkeys(names, math.nan)
        gold = {line["id"]: line["gold"] for line in lines}
        predictions = {line["id"]: line["prediction"] for line in lines}
        if self.scorer == "squad-1.1":
            values = squad.squad_v1(gold, predictions)
        elif self.scorer == "korquad-1.0":
            values = korquad.korquad(gold, predictions)
        elif self.scorer == "squad-2.0":
            answers = {line["id"]: line["answer"] for line in lines}
            odds = {line["id"]: line["null_odds"] for line in lines}
            values = squad.squad_v2(gold, answers, odds, self.null_threshold)
        else:
            types = {line["id"]: line["question_type"] for line in lines if "question_type" in line}
            values = klue_mrc.klue_mrc(gold, predictions, types or None)
        return {task.headline: values[task.headline], **values}

    def weighted_score(self, task: Task, lines: Sequence[Line]) -> weighted.Weighted:
        """Every script reports the mean over questions."""
        return weighted.mean_of(
            np.array([self.score(task, [line])[task.headline] for line in lines])
        )

    def pairs(self, task: Task, line: Line) -> list[Pair]:
        """Whether the question has an answer, where there are such that have none."""
        return [answer_pair(line)] if self.has_unanswerable else []

    def groups(self, task: Task, line: Line) -> dict[str, str]:
        """With or without an answer, and KLUE-MRC's question type."""
        found = {"gold answer": answer_pair(line).gold} if self.has_unanswerable else {}
        if "question_type" in line:
            found["question type"] = str(line["question_type"])
        return found

    def failure(self, task: Task, runs: Sequence[Line], example: Example | None) -> Failure | None:
        """No exact match in most runs; as severe as the wrong answer is sure."""
        return answer_failure(runs, self.scorer)

    def shown(self, task: Task, example: Example, line: Line) -> list[tuple[str, str]]:
        """The question, and the context around the answer."""
        return question_texts(_question(example), line["prediction"])

    def _line(self, example: QuestionExample, answer: Answer) -> Line:
        gold = None if example.answers is None else [found.text for found in example.answers]
        best = zip(answer.n_best, answer.probabilities, strict=True)
        n_best = [[c.text, round(probability, 6)] for c, probability in best]
        line = {"id": example.id, "gold": gold, **self._decided(answer.text, answer.null_odds)}
        if example.question_type is not None:
            line["question_type"] = example.question_type
        return {**line, "n_best": n_best[:NUM_CANDIDATES_KEPT]}

    def _decided(self, text: str, null_odds: float | None) -> dict[str, Any]:
        if null_odds is None:
            return {"prediction": text}
        prediction = "" if null_odds > self.null_threshold else text
        return {"prediction": prediction, "answer": text, "null_odds": null_odds}

    def _answer(
        self, example: Example, features: Features, outputs: Sequence[Outputs], rows: list[int]
    ) -> Answer:
        windows = [
            Window(features.details["first"][row], features.details["is_max_context"][row])
            for row in rows
        ]
        offsets = [features.details["offsets"][row] for row in rows]
        # as the row alone would be: behind it there is the padding of its batch
        found = [
            {
                name: value[: len(features.input_ids[row])] if name.endswith("_logits") else value
                for name, value in outputs[row].items()
            }
            for row in rows
        ]

        def text_of(window: int, start: int, end: int) -> str:
            first = windows[window].first
            begin, behind = offsets[window][start - first][0], offsets[window][end - first][1]
            return _question(example).context[begin:behind].strip()

        if self.head == "joint":
            tables = [self._beam_table(windows[n], n, output) for n, output in enumerate(found)]
            odds = None
            if self.has_unanswerable:
                odds = [float(output["impossible_logit"]) for output in found]
            return electra_answer(
                tables, text_of, self.n_best_size, odds, null_scores_are_odds=True
            )
        tables = [self._logit_table(windows[n], n, output) for n, output in enumerate(found)]
        nulls = None
        if self.has_unanswerable:
            nulls = [(float(o["start_logits"][0]), float(o["end_logits"][0])) for o in found]
        return klue_answer(tables, text_of, self.n_best_size, nulls)

    def _beam_table(self, window: Window, number: int, output: Outputs) -> SpanTable:
        return spans_of_beam(
            window,
            number,
            output["start_index"],
            output["end_index"],
            output["start_log_probs"],
            output["end_log_probs"],
            self.max_answer_length,
        )

    def _logit_table(self, window: Window, number: int, output: Outputs) -> SpanTable:
        return spans_of_logits(
            window,
            number,
            output["start_logits"],
            output["end_logits"],
            self.n_best_size,
            self.max_answer_length,
        )


# a line with an answer and one without: by their scores the names of all metrics are known
_ONE_OF_EACH: Sequence[Line] = [
    {
        "id": str(number),
        "gold": gold,
        "prediction": "a",
        "answer": "a",
        "null_odds": 0.0,
        "question_type": 1,
    }
    for number, gold in enumerate([["a"], []])
]


def _question(example: Example) -> QuestionExample:
    assert isinstance(example, QuestionExample)
    return example


def answer_pair(line: Line) -> Pair:
    """Whether there is an answer, and whether one was given."""
    gold, said = (ANSWER if line[side] else NO_ANSWER for side in ("gold", "prediction"))
    return Pair(gold, said, gold == said)


def answer_failure(runs: Sequence[Line], scorer: Scorer) -> Failure | None:
    """No exact match in most runs: the median of how sure they are, and the middle wrong one."""
    normalize = _NORMALIZE[scorer]
    gold = runs[0]["gold"]
    right = {normalize(answer) for answer in gold or [""]}
    wrong = [line for line in runs if normalize(line["prediction"]) not in right]
    if mostly_wrong(runs, lambda line: line in wrong) is None:
        return None
    ranked = sorted(wrong, key=_certainty)
    line = ranked[(len(ranked) - 1) // 2]
    parts = [f"“{text}” {probability:.3f}" for text, probability in line["n_best"][:3]]
    if line.get("null_odds") is not None:
        parts.insert(0, f"odds of {NO_ANSWER} {line['null_odds']:.2f}")
    texts = " / ".join(dict.fromkeys(gold)) or f"({NO_ANSWER})"
    said = line["prediction"] or f"({NO_ANSWER})"
    return Failure(statistics.median(map(_certainty, runs)), texts, said, "; ".join(parts))


def question_texts(example: QuestionExample, prediction: str) -> list[tuple[str, str]]:
    """The question, and the context around the first gold answer, or around what was answered."""
    place = example.answers[0].start if example.answers else example.context.find(prediction)
    length = len(example.answers[0].text) if example.answers else len(prediction)
    place = max(0, place)
    start, end = max(0, place - _AROUND), place + length + _AROUND
    before = "… " if start else ""
    after = " …" if end < len(example.context) else ""
    context = f"{before}{example.context[start:end]}{after}"
    return [("question", example.question), ("context", context)]


def _certainty(line: Line) -> float:
    """Of what is predicted: the probability of the text, or of there being no answer."""
    odds = line.get("null_odds")
    if not line["prediction"] and odds is not None:
        return 1 / (1 + math.exp(-max(-500.0, odds)))
    found = (share for text, share in line["n_best"] if text == line["prediction"])
    return float(next(found, 0.0))
