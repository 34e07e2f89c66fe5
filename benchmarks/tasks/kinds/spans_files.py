"""Files of questions about a context: SQuAD's JSON, in which KorQuAD, XQuAD and KLUE-MRC come too.

Articles of paragraphs, a paragraph with one context and its questions ("qas"). Written are the
files that SQuAD's official script takes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tasks.kind import Example, Line
from benchmarks.tasks.task import Task
from electrify.stage.folder import write_text
from electrify.storage.files import read_json


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


def read_questions(
    task: Task, split: str, path: Path, has_unanswerable: bool
) -> Iterator[QuestionExample]:
    """The questions of a file in its order.

    Raises `ValueError` with the place for what is missing, two questions of one id, and, unless the
    task `has_unanswerable` questions, one without an answer.
    """
    content = read_json(path)
    articles = _list(content, "data", str(path))
    seen: set[str] = set()
    for number, article in enumerate(articles, start=1):
        for part, paragraph in enumerate(
            _list(article, "paragraphs", f"{path} article {number}"), start=1
        ):
            place = f"{path} article {number} paragraph {part}"
            context = _text(paragraph, "context", place)
            for row, qa in enumerate(_list(paragraph, "qas", place), start=1):
                where = f"{place} question {row}"
                answers = None
                if split not in task.unlabelled:
                    answers = [
                        GoldAnswer(_text(answer, "text", where), _number(answer, where))
                        for answer in _list(qa, "answers", where)
                    ]
                    if qa.get("is_impossible"):  # KLUE puts what only looks so elsewhere
                        answers = []
                example = _question(task, context, qa, answers, where, has_unanswerable)
                if example.id in seen:
                    raise ValueError(f"{where}: id {example.id!r} is that of an earlier question")
                seen.add(example.id)
                yield example


def hub_questions(
    task: Task, split: str, rows: Iterable[Mapping[str, Any]], has_unanswerable: bool
) -> Iterator[QuestionExample]:
    """As `read_questions`, from rows of the hub, whose `answers` are a list a field."""
    for number, row in enumerate(rows, start=1):
        where = f"{task.name} {split} row {number}"
        answers = None
        if split not in task.unlabelled:
            found = row.get("answers")
            if not isinstance(found, Mapping) or not {"text", "answer_start"} <= set(found):
                raise ValueError(f"{where}: answers is {found!r:.80}, not lists by field")
            pairs = zip(found["text"], found["answer_start"], strict=True)
            answers = [GoldAnswer(str(text), int(start)) for text, start in pairs]
            if row.get("is_impossible"):  # the hub has KLUE's plausible answers there
                answers = []
        context = _text(row, "context", where)
        yield _question(task, context, row, answers, where, has_unanswerable)


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


def _question(
    task: Task,
    context: str,
    row: Mapping[str, Any],
    answers: list[GoldAnswer] | None,
    where: str,
    has_unanswerable: bool,
) -> QuestionExample:
    identity = _text(row, task.id_field or "id", where)
    if answers is not None and not answers and not has_unanswerable:
        raise ValueError(
            f"{where}: question {identity!r} has no answer; in {task.name} every question has one"
        )
    question_type = row.get("question_type")
    if question_type is not None and not isinstance(question_type, int):
        raise ValueError(f"{where}: question_type is {question_type!r}, not a whole number")
    return QuestionExample(
        identity,
        (context, _text(row, "question", where)),
        None if answers is None else tuple(answers),
        question_type,
    )


def _list(row: Any, field: str, where: str) -> list[Any]:
    value = row.get(field) if isinstance(row, Mapping) else None
    if not isinstance(value, list):
        raise ValueError(f"{where}: field {field!r} is {_shown(value)}, not a list")
    return value


def _text(row: Any, field: str, where: str) -> str:
    value = row.get(field) if isinstance(row, Mapping) else None
    if not isinstance(value, str):
        raise ValueError(f"{where}: field {field!r} is {_shown(value)}, not text")
    return value


def _number(answer: Mapping[str, Any], where: str) -> int:
    value = answer.get("answer_start")
    if not isinstance(value, int):
        raise ValueError(f"{where}: field 'answer_start' is {_shown(value)}, not a whole number")
    return value


def _shown(value: Any) -> str:
    return "missing" if value is None else f"{value!r:.80}"
