"""Where a reading goes wrong: an answer where there is none, another text, and how sure it was."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from benchmarks.metrics import klue_mrc, korquad, squad
from benchmarks.tasks.kind import Failure, Line, Pair, mostly_wrong
from benchmarks.tasks.kinds.spans_files import QuestionExample

Scorer = Literal["squad-1.1", "squad-2.0", "klue-mrc", "korquad-1.0"]

NO_ANSWER, ANSWER = "no answer", "answer"
_AROUND = 160  # characters of a context shown on each side of an answer
_NORMALIZE: dict[Scorer, Callable[[str], str]] = {
    "squad-1.1": squad.normalize_answer,
    "squad-2.0": squad.normalize_answer,
    "klue-mrc": klue_mrc.normalize_answer,
    "korquad-1.0": korquad.normalize_answer,
}


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
