"""Questions whose answer is a piece of a context: SQuAD, KorQuAD, XQuAD and KLUE-MRC.

A long context has a row a window; the windows of a question are put together again by the official
post-processing (`spans_decode`), and the answer is the text of the context between the first
character of its first piece and the last of its last. The official code goes from pieces back to
words by comparing texts, which is the same wherever it finds the pieces again.
"""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import klue_mrc, korquad, squad, weighted
from benchmarks.tasks.kinds.spans_decode import (
    Answer,
    Window,
    electra_answer,
    klue_answer,
    spans_of_beam,
    spans_of_logits,
)
from benchmarks.tasks.kinds.spans_features import (
    GoldAnswer,
    QuestionExample,
    fitted_lengths,
    row_arrays,
    window_rows,
)
from benchmarks.tasks.mistakes import Failure, Pair, mostly_wrong
from benchmarks.tasks.rows import Row, list_field, text_field
from benchmarks.tasks.task import Features, Line, Outputs, Task
from electrify.stage.folder import write_text
from electrify.storage.files import read_json
from electrify.system.progress import warn

if TYPE_CHECKING:
    from torch import Generator, nn

    from benchmarks.tasks.heads.linear import Head


Scorer = Literal["squad-1.1", "squad-2.0", "klue-mrc", "korquad-1.0"]
NO_ANSWER = "no answer"
_ANSWER_OR_NOT = (NO_ANSWER, "answer")
_AROUND = 160  # characters of a context shown on each side of an answer
_NORMALIZE: dict[Scorer, Callable[[str], str]] = {
    "squad-1.1": squad.normalize_answer,
    "squad-2.0": squad.normalize_answer,
    "klue-mrc": klue_mrc.normalize_answer,
    "korquad-1.0": korquad.normalize_answer,
}
NUM_CANDIDATES_KEPT = 5  # of the n best texts, in a line


@dataclass(frozen=True, kw_only=True)
class Spans(Task):
    """A reading task; its settings are by default those of google-research/electra.

    With head "joint" (`JointHead`, the paper's) "no answer" is what the classifier says, with
    "span" (`SpanHead`) it is the first position. A question is left without answer where the odds
    of that are greater than `null_threshold`.
    """

    row_name = "question"
    units = "questions"
    failures_quote = True

    text_fields: tuple[str, ...] = ("context", "question")
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

    def rows(self, split: str, path: Path) -> Iterator[tuple[int, Row]]:
        """Questions of SQuAD's JSON, in which KorQuAD, XQuAD and KLUE-MRC come too: articles of
        paragraphs, a paragraph with one context and its questions ("qas")."""
        number = 0
        for article in list_field(read_json(path), "data", str(path)):
            for paragraph in list_field(article, "paragraphs", f"{path} behind question {number}"):
                place = f"{path} behind question {number}"
                context = text_field(paragraph, "context", place)
                for qa in list_field(paragraph, "qas", place):
                    number += 1
                    if not isinstance(qa, dict):
                        raise ValueError(f"{path} question {number}: {qa!r:.80} is not an object")
                    yield number, {**qa, "context": context}

    def examples(
        self, row: Row, identity: str, place: str, is_labelled: bool
    ) -> Iterator[QuestionExample]:
        answers = _gold_answers(row, place) if is_labelled else None
        if answers == () and not self.has_unanswerable:
            raise ValueError(
                f"{place}: question {identity!r} has no answer; in {self.name} every question has "
                "one"
            )
        question_type = row.get("question_type")
        if question_type is not None and not isinstance(question_type, int):
            raise ValueError(f"{place}: question_type is {question_type!r:.80}, no whole number")
        yield QuestionExample(identity, self.texts(row, place), answers, question_type)

    def featurize(
        self, examples: Sequence[QuestionExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """A row a window; what is cut off is the end of long questions.

        In training every window is a row, at position 0 where the answer is not in it, and a
        question whose answer stands nowhere in its context is left out with a warning.
        """
        lengths = fitted_lengths(max_length, self.max_question_length, self.stride)
        features, num_lost = window_rows(examples, tokenizer, lengths, train)
        if num_lost:
            warn(
                f"{self.name}: the answers of {num_lost:,} of {len(examples):,} training questions "
                "do not stand in their contexts; these questions are left out"
            )
        return features

    def label_arrays(
        self, features: Features, rows: NDArray[np.int64], length: int
    ) -> dict[str, NDArray[Any]]:
        """`start`, `end` and `impossible` (B,), and `answer_mask` (B, T): where they may be."""
        return row_arrays(features, rows, length)

    def make_head(self, encoder: "nn.Module", tokenizer: Any, generator: "Generator") -> "Head":
        """The head that is set, with a classifier only where questions may have no answer."""
        from benchmarks.tasks.heads.spans import JointHead, SpanHead

        if self.head == "span":
            return SpanHead(encoder, generator)
        weight = self.answerable_weight if self.has_unanswerable else None
        return JointHead(encoder, generator, self.beam_size, weight)

    def lines(
        self, examples: Sequence[QuestionExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Line]:
        """The answer of each question and its best candidates.

        Where questions may have no answer, "answer" is the best text, "null_odds" what speaks
        against any, and "prediction" what the task's threshold makes of the two.
        """
        rows_of: dict[int, list[int]] = defaultdict(list)
        for row, number in enumerate(features.example_of.tolist()):
            rows_of[number].append(row)
        return [
            self._line(example, self._answer(example, features, outputs, rows_of[number]))
            for number, example in enumerate(examples)
        ]

    def _line(self, example: QuestionExample, answer: Answer) -> Line:
        gold = None if example.answers is None else [found.text for found in example.answers]
        line: Line = {"id": example.id, "gold": gold, "prediction": answer.text}
        if answer.null_odds is not None:
            if answer.null_odds > self.null_threshold:
                line["prediction"] = ""
            line |= {"answer": answer.text, "null_odds": answer.null_odds}
        if example.question_type is not None:
            line["question_type"] = example.question_type
        best = zip(answer.n_best, answer.probabilities, strict=True)
        n_best = [[c.text, round(probability, 6)] for c, probability in best]
        return {**line, "n_best": n_best[:NUM_CANDIDATES_KEPT]}

    def _answer(
        self,
        example: QuestionExample,
        features: Features,
        outputs: Sequence[Outputs],
        rows: list[int],
    ) -> Answer:
        details = features.details
        windows = [Window(details["first"][row], details["is_max_context"][row]) for row in rows]
        offsets = [details["offsets"][row] for row in rows]
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
            return example.context[begin:behind].strip()

        if self.head == "joint":
            tables = [
                spans_of_beam(
                    window,
                    number,
                    output["start_index"],
                    output["end_index"],
                    output["start_log_probs"],
                    output["end_log_probs"],
                    self.max_answer_length,
                )
                for number, (window, output) in enumerate(zip(windows, found, strict=True))
            ]
            odds = None
            if self.has_unanswerable:
                odds = [float(output["impossible_logit"]) for output in found]
            return electra_answer(
                tables, text_of, self.n_best_size, odds, null_scores_are_odds=True
            )
        tables = [
            spans_of_logits(
                window,
                number,
                output["start_logits"],
                output["end_logits"],
                self.n_best_size,
                self.max_answer_length,
            )
            for number, (window, output) in enumerate(zip(windows, found, strict=True))
        ]
        nulls = None
        if self.has_unanswerable:
            nulls = [(float(o["start_logits"][0]), float(o["end_logits"][0])) for o in found]
        return klue_answer(tables, text_of, self.n_best_size, nulls)

    def score(self, lines: Sequence[Line]) -> dict[str, float]:
        """Every value of the task's official script, and corrected ones beside."""
        if not lines:
            names = self.score(_ONE_OF_EACH[: 2 if self.has_unanswerable else 1])
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
        return {self.headline: values[self.headline], **values}

    def weighted_score(self, lines: Sequence[Line]) -> weighted.Weighted:
        """Every script reports the mean over questions."""
        return weighted.mean_of(np.array([self.score([line])[self.headline] for line in lines]))

    def pairs(self, line: Line) -> list[Pair]:
        """Whether the question has an answer, where there are such that have none."""
        if not self.has_unanswerable:
            return []
        gold, said = (_ANSWER_OR_NOT[bool(line[side])] for side in ("gold", "prediction"))
        return [Pair(gold, said, gold == said)]

    def groups(self, line: Line) -> dict[str, str]:
        """With or without an answer, and KLUE-MRC's question type."""
        found = {"gold answer": _ANSWER_OR_NOT[bool(line["gold"])]} if self.has_unanswerable else {}
        if "question_type" in line:
            found["question type"] = str(line["question_type"])
        return found

    def failure(self, runs: Sequence[Line], example: QuestionExample | None) -> Failure | None:
        """No exact match in most runs: the median of how sure they are, the middle wrong one."""
        normalize = _NORMALIZE[self.scorer]
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

    def shown(self, example: QuestionExample, line: Line) -> list[tuple[str, str]]:
        """The question, and the context around the first gold answer, or what was answered."""
        context, said = example.context, line["prediction"]
        gold = example.answers[0] if example.answers else GoldAnswer(said, context.find(said))
        place = max(0, gold.start)
        start, end = max(0, place - _AROUND), place + len(gold.text) + _AROUND
        before = "… " if start else ""
        after = " …" if end < len(context) else ""
        return [
            ("question", example.question),
            ("context", f"{before}{context[start:end]}{after}"),
        ]


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


def _gold_answers(row: Row, place: str) -> tuple[GoldAnswer, ...]:
    """Of a file a list of answers, of the hub a list a field."""
    found = row.get("answers")
    if isinstance(found, dict):
        columns = (list_field(found, name, place) for name in ("text", "answer_start"))
        found = [{"text": t, "answer_start": n} for t, n in zip(*columns, strict=True)]
    answers = []
    for answer in list_field({"answers": found}, "answers", place):
        text = text_field(answer, "text", place)
        start = answer.get("answer_start")
        if not isinstance(start, int):
            raise ValueError(f"{place}: answer_start is {start!r:.80}, no whole number")
        answers.append(GoldAnswer(text, start))
    # where it is set, files and the hub have KLUE's plausible answers in other places
    return () if row.get("is_impossible") else tuple(answers)


def write_squad_files(lines: Sequence[Line], folder: Path, with_odds: bool) -> list[Path]:
    """Write `predictions.json`, and `null_odds.json` for a script that reads it; give their paths.

    Both map question ids. With odds the predictions are texts throughout, and the official script
    of SQuAD 2.0 is to be given the threshold: `--na-prob-file null_odds.json --na-prob-thresh T`.
    Without them, as KLUE-MRC's script wants it, "" stands where the threshold says "no answer".
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = "answer" if with_odds else "prediction"
    contents: dict[str, dict[str, Any]] = {
        "predictions.json": {line["id"]: line[text] for line in lines}
    }
    if with_odds:
        contents["null_odds.json"] = {line["id"]: line["null_odds"] for line in lines}
    paths = []
    for name, content in contents.items():
        paths.append(folder / name)
        write_text(paths[-1], json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    return paths


def _certainty(line: Line) -> float:
    """Of what is predicted: the probability of the text, or of there being no answer."""
    odds = line.get("null_odds")
    if not line["prediction"] and odds is not None:
        return 1 / (1 + math.exp(-max(-500.0, odds)))
    found = (share for text, share in line["n_best"] if text == line["prediction"])
    return float(next(found, 0.0))
