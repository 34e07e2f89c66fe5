"""`electrify predict`: what a fine-tuned network says of each row of a file.

Rows are read, predicted and written in parts, so that a file may be of any size; in a part rows of
like length are predicted together. Where rows have gold values, their score is logged.
"""

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from scipy.special import softmax

from benchmarks.metrics.tags import entities
from benchmarks.results.predictions import score_predictions
from benchmarks.results.results import percent
from benchmarks.tasks.files import TAGS, TOKENS, own_rows
from benchmarks.tasks.labels import MultiLabelClassification, Regression
from benchmarks.tasks.own import known_texts
from benchmarks.tasks.rows import Row, is_missing, nested
from benchmarks.tasks.spans import Spans
from benchmarks.tasks.tags import (
    CharacterTagging,
    OwnEntityTagging,
    OwnWordTagging,
    Tagging,
    WordTagging,
)
from benchmarks.tasks.task import Example, Outputs, Prediction, Task
from benchmarks.training.finetune import choose_device
from benchmarks.training.network import read_kept
from benchmarks.training.trainer import Trainer
from electrify.stage.folder import whole_file
from electrify.storage.encodings import text_lines
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log, warn

_PART_ROWS = 512  # read, sorted by length, predicted and written at once
_BATCH_ROWS = 32
_LINES = (".jsonl", ".ndjson")
_SAID = ("prediction", "probability")


def predict(folder: Path, file: Path, output: Path | None = None) -> None:
    """Predict every row of a file, .txt (a text a line), .csv, .jsonl or another that an own task
    is read from; write `output`, .csv or .jsonl, or CSV to stdout.

    Raises `UserError` for a folder that `finetune` did not write, a file that cannot be read, has
    no rows or lacks a column, and an output that is there.
    """
    if output is not None and output.exists():
        raise UserError(f"{output} is there already: give another `output`, or remove it")
    if output is not None and output.suffix not in (*_LINES, ".csv"):
        raise UserError(f"{output}: give an `output` that ends in .csv or .jsonl")
    if not file.is_file():
        raise UserError(f"no file {file}; give one with a text a row: .txt, .csv or .jsonl")
    rows = predictions(folder, rows_of(file), str(file))
    if output is None:
        _write(rows, sys.stdout, as_json=False)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(output) as path, path.open("w", encoding="utf-8", newline="") as stream:
        _write(rows, stream, output.suffix in _LINES)


def predictions(
    folder: Path, rows: Iterable[tuple[int, Row]], where: str
) -> Iterator[dict[str, Any]]:
    """Each numbered row with what the network of a folder says of it before its own columns.

    `prediction` is a label, a list of labels, a number, the tags of words, spans of characters or
    an answer, None of a row without text; `probability` is that of the label or answer, of tags
    the lowest one, of several labels one each.
    """
    kept = read_kept(folder)
    settings = replace(kept.settings, precision="fp32")
    task, tokenizer = kept.task, kept.source.tokenizer
    network = kept.network.to(choose_device("auto"))
    trainer = Trainer(network, task, tokenizer.pad_token_id, settings, str(folder))
    trainer.prediction_batch_size = _BATCH_ROWS
    numbered, scored, unknown = iter(rows), list[Prediction](), list[str]()
    num_rows = num_cut = num_empty = 0
    with Progress("predict", None, "rows") as bar:
        while part := list(islice(numbered, _PART_ROWS)):
            if not num_rows:
                task = trainer.task = _as_read(task, part[0][1], where)
            texts = [(n, row) for n, row in part if not _is_empty(task, row)]
            said = dict[int, dict[str, Any]]()
            if texts:
                read = [_example(task, row, f"{where} row {n}", str(n)) for n, row in texts]
                examples = [example for example, _ in read]
                features = task.featurize(examples, tokenizer, settings.max_sequence_length, False)
                outputs = trainer.predict(features)
                predicted = task.predictions(examples, features, outputs)
                for place, each in enumerate(predicted):
                    said[int(each["id"])] = _said(task, each, place, features.details, outputs)
                pairs = zip(predicted, read, strict=True)
                scored += [each for each, (_, gold) in pairs if gold is True]
                unknown += [gold for _, gold in read if isinstance(gold, str)]
                num_cut += features.num_truncated
            for number, row in part:
                own = {name: value for name, value in row.items() if name not in _SAID}
                yield {**said.get(number, {"prediction": None}), **own}
            num_rows, num_empty = num_rows + len(part), num_empty + len(part) - len(texts)
            bar.update(len(part))
    if not num_rows:
        raise UserError(f"{where} has no rows")
    if num_empty:
        warn(f"{where}: {num_empty:,} of {num_rows:,} rows have no text, and no prediction")
    if num_cut:
        length = settings.max_sequence_length
        warn(f"{where}: {num_cut:,} of {num_rows:,} texts are longer than {length} pieces: cut")
    if unknown:
        warn(f"{unknown[0]}; {len(unknown):,} such rows do not count in the score")
    if scored:
        score = percent(score_predictions(task, scored)[task.headline])
        log(f"{where}: {task.headline} {score} on {len(scored):,} rows with a gold value")


def rows_of(file: Path) -> Iterator[tuple[int, Row]]:
    """The numbered rows of a file as an own task reads them; of .txt a text a line."""
    if file.suffix.lower() != ".txt":
        return own_rows(file)[0]
    lines, _ = text_lines(file)
    return ((number, {"text": line.rstrip("\n")}) for number, line in enumerate(lines, start=1))


# What a row is to the task, and what is said of it.


def _as_read(task: Task, row: Row, where: str) -> Task:
    """The task with the columns of a file of the user's, who need not have those of its own."""
    values = {field.name: getattr(task, field.name) for field in fields(task)}
    if isinstance(task, CharacterTagging):
        task = OwnEntityTagging(**values | {"text_fields": task.text_fields or ("text",)})
    elif isinstance(task, WordTagging) and not isinstance(task, OwnWordTagging):
        columns = {"text_fields": (TOKENS,), "label_field": TAGS} if TOKENS in row else {}
        task = OwnWordTagging(**values | {"labels": task.tag_names} | columns)
    missing = [n for n in task.text_fields if n not in row and nested(row, n) is None]
    if missing and len(task.text_fields) == 1:
        column = next(iter(known_texts([*row]) or ([*row] if len(row) == 1 else [])), None)
        if column is not None:
            if len(row) > 1:
                warn(f"{where}: texts are read from {column!r}")
            return replace(task, text_fields=(column,))
    if missing:
        raise UserError(
            f"{where}: no column {missing[0]!r} (there are: {', '.join(map(str, row))}); "
            "the network reads " + " and ".join(map(repr, task.text_fields))
        )
    return task


def _is_empty(task: Task, row: Row) -> bool:
    values = (nested(row, name) for name in task.text_fields)
    return any(
        value is None or not (value.strip() if isinstance(value, str) else value)
        for value in values
    )


def _example(task: Task, row: Row, location: str, number: str) -> tuple[Example, bool | str]:
    """With whether it has a gold value, or what is wrong with that."""
    (name, *_), label = task.text_fields, task.label_field
    gold: bool | str = False
    if isinstance(task, OwnWordTagging) and isinstance(row[name], str):
        row = {**row, name: row[name].split()}
    if not is_missing(nested(row, "answers" if isinstance(task, Spans) else label)):
        try:
            (example,) = task.examples(row, number, location, True)
            return example, True
        except UserError as error:
            gold = str(error)
    if isinstance(task, Tagging):
        is_words = isinstance(task, OwnWordTagging)
        row = {**row, label: [task.labels[0]] * len(row[name]) if is_words else []}
    (example,) = task.examples(row, number, location, isinstance(task, Tagging))
    return example, gold


def _said(
    task: Task,
    predicted: Prediction,
    row: int,
    details: Mapping[str, Sequence[Any]],
    outputs: Sequence[Outputs],
) -> dict[str, Any]:
    """`row` is that of the example in `details` and `outputs`, where each has one."""
    prediction = predicted["prediction"]
    if isinstance(task, Regression):
        return {"prediction": prediction}
    if isinstance(task, Spans):
        return {"prediction": prediction, "probability": predicted["n_best"][0][1]}
    if isinstance(task, MultiLabelClassification):
        by_label = dict(zip(task.labels, predicted["probabilities"], strict=True))
        return {"prediction": prediction, "probability": by_label}
    if not isinstance(task, Tagging):
        return {"prediction": prediction, "probability": max(predicted["probabilities"])}
    if isinstance(task, CharacterTagging):
        found = sorted((start, end, kind) for kind, start, end in entities(prediction, True))
        prediction = [
            {"start": start, "end": end, "label": kind, "text": predicted["text"][start:end]}
            for start, end, kind in found
        ]
        places = [n for n, (start, end) in enumerate(details["spans"][row]) if start < end]
    else:
        places = [*details["firsts"][row].values()]
    sure = softmax(outputs[row]["logits"][places].astype(np.float64), axis=-1).max(axis=-1)
    return {"prediction": prediction, "probability": round(float(sure.min(initial=1)), 6)}


def _write(rows: Iterable[Mapping[str, Any]], stream: TextIO, as_json: bool) -> None:
    """A line of JSON a row, or CSV with the columns of the first part and JSON in nested cells.
    What JSON lacks, such as a date, is text in it."""
    as_text = partial(json.dumps, ensure_ascii=False, default=str)
    if as_json:
        stream.writelines(f"{as_text(row)}\n" for row in rows)
        return
    rows = iter(rows)
    first = list(islice(rows, _PART_ROWS))
    names = list(dict.fromkeys(chain(_SAID, *first)))
    table = csv.DictWriter(stream, names, restval="", extrasaction="ignore")
    table.writeheader()
    lost = set[str]()
    for row in chain(first, rows):
        nested_ones = {n: of for n, of in row.items() if isinstance(of, list | dict)}
        table.writerow({**row, **{n: as_text(of) for n, of in nested_ones.items()}})
        lost |= row.keys() - names
    if lost:
        warn(
            f"columns that the first {_PART_ROWS} rows lack are left out: {', '.join(sorted(lost))}"
        )
