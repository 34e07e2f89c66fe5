"""The texts of the benchmarks' evaluation rows, for the corpus stage to look for.

Dev and test rows only: what a model may train on later does no harm in the corpus. A text is every
text field of a row. Tasks are read from the hub where that stands for the data folder, or from what
`save_to_disk` wrote into it. Else files are found by their official names at any depth of the data
folder; a task that has only some of its files is dumped from those.
"""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from benchmarks.tasks.data.hub import HUB, read_splits, saved_folder
from benchmarks.tasks.data.load import read_examples
from benchmarks.tasks.registry import SUITES, TASKS
from benchmarks.tasks.task import Task
from electrify.config.run import RunConfig
from electrify.config.tasks import TEXT_NAMES, unknown_texts
from electrify.stage.folder import write_text
from electrify.storage.files import parse_json
from electrify.system.progress import log, warn


@dataclass(frozen=True, slots=True)
class EvaluationFile:
    """An official file of one split of one task. `fields`: keys at any depth (json), or names in
    the header (tsv): a file with a row out of form still gives its texts.

    Of tasks that have none here the reported splits are read as the harness does.
    """

    suite: str
    task: str
    split: str
    names: tuple[str, ...]  # any of them; may hold folders
    fields: tuple[str, ...] = ()
    file_format: Literal["json", "tsv", "tokens"] = "tsv"


_PAIR = ("sentence1", "sentence2")
_SQUAD = ("context", "question")


def _klue(task: str, fields: tuple[str, ...]) -> EvaluationFile:
    return EvaluationFile(
        "klue", f"klue-{task}", "dev", (f"klue-{task}-v1.1_dev.json",), fields, "json"
    )


def _glue(task: str, folder: str, fields: tuple[str, ...], *splits: str) -> list[EvaluationFile]:
    return [
        EvaluationFile("glue", f"glue-{task}", split, (f"{folder}/{split}.tsv",), fields)
        for split in splits
    ]


def _squad(suite: str, task: str, split: str, *names: str) -> EvaluationFile:
    return EvaluationFile(suite, task, split, names, _SQUAD, "json")


EVALUATION_FILES: tuple[EvaluationFile, ...] = (
    _klue("sts", _PAIR),
    _klue("re", ("sentence",)),
    _klue("mrc", _SQUAD),  # not the title: often a name alone, of a law or a film
    EvaluationFile("klue", "klue-dp", "dev", ("klue-dp-v1.1_dev.tsv",), file_format="tokens"),
    EvaluationFile("klue", "klue-wos", "dev", ("wos-v1.1_dev.json",), ("text",), "json"),
    *_glue("cola", "CoLA", ("sentence",), "test"),
    *_glue("sst2", "SST-2", ("sentence",), "test"),
    *_glue("mrpc", "MRPC", ("#1 String", "#2 String"), "test"),
    EvaluationFile(
        "glue", "glue-mrpc", "test", ("msr_paraphrase_test.txt",), ("#1 String", "#2 String")
    ),
    *_glue("rte", "RTE", _PAIR, "test"),
    *_glue("stsb", "STS-B", _PAIR, "dev", "test"),
    *_glue("qqp", "QQP", ("question1", "question2"), "dev", "test"),
    *_glue("qnli", "QNLI", ("question", "sentence"), "dev", "test"),
    *_glue(
        "mnli", "MNLI", _PAIR, "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"
    ),
    *_glue("wnli", "WNLI", _PAIR, "dev", "test"),
    EvaluationFile("glue", "glue-diagnostic", "test", ("diagnostic.tsv",), _PAIR),
    _squad(
        "squad", "squad-1.1", "dev", "dev-v1.1.json", "dev-v1.1_part.json", "dev-v1.1_from_v2.json"
    ),
    _squad("squad", "squad-2.0", "dev", "dev-v2.0.json", "dev-v2.0_part.json"),
    _squad("korquad", "korquad-v1", "dev", "KorQuAD_v1.0_dev.json"),
    *(
        _squad("xquad", f"xquad-{language}", "test", f"xquad.{language}.json")
        for language in ("ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
    ),
    EvaluationFile("nsmc", "nsmc", "test", ("ratings_test.txt",), ("document",)),
    EvaluationFile("kornli", "kornli", "dev", ("xnli.dev.ko.tsv",), _PAIR),
    EvaluationFile("kornli", "kornli", "test", ("xnli.test.ko.tsv",), _PAIR),
    EvaluationFile("korsts", "korsts", "dev", ("sts-dev.tsv",), _PAIR),
    EvaluationFile("korsts", "korsts", "test", ("sts-test.tsv",), _PAIR),
    EvaluationFile(
        "hate-speech",
        "korean-hate-speech",
        "dev",
        ("hate-speech/dev.tsv", "korean-hate-speech/labeled/dev.tsv"),
        ("comments",),
    ),
    EvaluationFile(
        "hate-speech",
        "korean-hate-speech",
        "test",
        ("test.no_label.tsv",),
        ("comments",),
    ),
)


Row = tuple[str, str]  # split, text


def dump_benchmarks(config: RunConfig) -> Path | None:
    """Dump what `clean.decontaminate_against` names into `<output_dir>/benchmark-texts`.

    The folder, or None if it names nothing.
    """
    names = config.clean.decontaminate_against
    if not names:
        return None
    data_dir = config.clean.decontaminate_data_dir or config.evaluate.data_dir
    folder = Path(config.output_dir) / "benchmark-texts"
    paths = dump_texts(names, Path(data_dir).expanduser() if data_dir else None, folder)
    log(f"decontaminate: {len(paths)} task(s) in {folder}")
    return folder


def dump_texts(names: Sequence[str], data_dir: Path | None, folder: Path) -> list[Path]:
    """Write one `<task>.jsonl` of {task, split, text} for each task found; their paths.

    `names` are suites, tasks or files. Raises `ValueError` for a name that is none of them and for
    a suite or task of which there is no file.
    """
    below = [] if str(data_dir) == HUB else _files_below(data_dir)
    rows: dict[str, dict[Row, None]] = {}  # in order, each once
    for name in names:
        for task, row in _rows_of_name(name, below, data_dir):
            rows.setdefault(task, {})[row] = None
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl"):  # of an earlier config
        old.unlink()
    paths = []
    for task, found in rows.items():
        path = folder / f"{task}.jsonl"
        lines = (
            json.dumps({"task": task, "split": split, "text": text}, ensure_ascii=False)
            for split, text in found
        )
        write_text(path, "".join(f"{line}\n" for line in lines))
        paths.append(path)
    return paths


def _rows_of_name(
    name: str, below: Sequence[Path], data_dir: Path | None
) -> Iterator[tuple[str, Row]]:
    if name in TEXT_NAMES:
        tasks = _tasks_of(name) or [name]
    elif Path(name).expanduser().is_file():
        path = Path(name).expanduser()
        yield from ((path.stem, ("file", text)) for text in _any_texts(path))
        return
    else:
        raise unknown_texts(name)
    if data_dir is None:
        raise ValueError(
            f"no data folder for {name!r} of clean.decontaminate_against: set "
            "clean.decontaminate_data_dir or evaluate.data_dir to the folder of the official "
            'files, or to "hub"'
        )
    found = {task: list(_task_rows(task, below, data_dir)) for task in tasks}
    missing = [task for task, rows in found.items() if not rows]
    if len(missing) == len(tasks):
        raise ValueError(_no_files(name, tasks, below, data_dir))
    if missing:
        place = "on the hub" if str(data_dir) == HUB else f"below {data_dir}"
        warn(f"decontaminate: no rows of {', '.join(missing)} {place}: not looked for")
    yield from ((task, row) for task, rows in found.items() for row in rows)


def _tasks_of(suite: str) -> list[str]:
    names = [task.name for task in SUITES.get(suite, ())]
    names += [file.task for file in EVALUATION_FILES if file.suite == suite]
    return list(dict.fromkeys(names))


def _task_rows(task: str, below: Sequence[Path], data_dir: Path) -> Iterator[Row]:
    """Rows of a task by `datasets`, if it is there; else of its evaluation files: by the table, and
    by the harness's loader those that the table does not have."""
    if task in TASKS and _by_datasets(TASKS[task], data_dir):
        splits = set(TASKS[task].all_splits) - {"train"}
        for split, examples in read_splits(TASKS[task], data_dir, splits).items():
            yield from ((split, text) for example in examples for text in example.texts)
        return
    in_table = {name for file in EVALUATION_FILES if file.task == task for name in file.names}
    if task in TASKS:
        for split in TASKS[task].reported_splits:
            names = [name for name in TASKS[task].files[split] if name not in in_table]
            for path in _named(names, below):
                for example in read_examples(TASKS[task], split, path):
                    yield from ((split, text) for text in example.texts)
    for file in EVALUATION_FILES:
        if file.task == task:
            for path in _named(file.names, below):
                yield from ((file.split, text) for text in _file_texts(file, path))


def _by_datasets(task: Task, data_dir: Path) -> bool:
    if str(data_dir) == HUB:
        return task.hub is not None
    return saved_folder(task, data_dir) is not None


def _named(names: Iterable[str], below: Sequence[Path]) -> list[Path]:
    wanted = [PurePosixPath(name).parts for name in names]
    return [path for path in below if any(path.parts[-len(parts) :] == parts for parts in wanted)]


def _files_below(data_dir: Path | None) -> list[Path]:
    if data_dir is None:
        return []
    if not data_dir.is_dir():
        raise ValueError(f"no data folder {data_dir}; set clean.decontaminate_data_dir")
    found = []
    for folder, inner, names in os.walk(data_dir.absolute()):
        inner.sort()
        found += [Path(folder, name) for name in sorted(names)]
    return found


def _file_texts(file: EvaluationFile, path: Path) -> Iterator[str]:
    text = _read(path)
    if file.file_format == "json":
        texts = list(_values(parse_json(text, path), file.fields))
    elif file.file_format == "tsv":
        texts = list(_column_texts(file, path, text))
    else:
        texts = [_sentence(block) for block in text.split("\n\n")]
    yield from filter(None, (t.strip() for t in texts))


def _column_texts(file: EvaluationFile, path: Path, text: str) -> Iterator[str]:
    """Cells of the named columns, without quoting as the official readers have it."""
    rows = [line.removesuffix("\r").split("\t") for line in text.split("\n") if line]
    header = rows[0] if rows else []
    columns = [header.index(name) for name in file.fields if name in header]
    if not columns:
        raise ValueError(
            f"{path}: no column {' or '.join(file.fields)} in its header {header}: is it the "
            f"official {file.split} file of {file.task}?"
        )
    for row in rows[1:]:
        yield from (row[column] for column in columns if column < len(row))


def _sentence(block: str) -> str:
    """The second column of a block of tokens, "#" lines left out (KLUE-DP)."""
    rows = [line.split("\t") for line in block.split("\n") if line and not line.startswith("#")]
    return " ".join(row[1] for row in rows if len(row) > 1)


def _values(value: Any, fields: Sequence[str] | None) -> Iterator[str]:
    """Texts under the named keys at any depth; None: all texts."""
    if isinstance(value, str):
        if fields is None:
            yield value
    elif isinstance(value, list):
        for entry in value:
            yield from _values(entry, fields)
    elif isinstance(value, dict):
        for key, entry in value.items():
            if fields is not None and key in fields and isinstance(entry, str):
                yield entry
            else:
                yield from _values(entry, fields)


def _any_texts(path: Path) -> Iterator[str]:
    """Every text of a file of a user: values of JSON, cells of tables, lines of anything else."""
    text = _read(path)
    if path.suffix == ".json":
        yield from _values(parse_json(text, path), None)
    elif path.suffix == ".jsonl":
        for line in filter(str.strip, text.split("\n")):
            yield from _values(parse_json(line, path), None)
    elif path.suffix == ".csv":
        try:
            for row in csv.reader(io.StringIO(text, newline="")):
                yield from row
        except csv.Error as error:
            raise ValueError(f"{path} is not valid CSV: {error}") from None
    else:
        for line in text.split("\n"):
            yield from line.rstrip("\r").split("\t")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}; convert it to UTF-8") from None


def _no_files(name: str, tasks: Sequence[str], below: Sequence[Path], data_dir: Path) -> str:
    if str(data_dir) == HUB:
        return (
            f"clean.decontaminate_against: no task of {name!r} is read from the hub; set "
            "clean.decontaminate_data_dir to a folder of the official files"
        )
    known = [TASKS[task] for task in tasks if task in TASKS]
    wanted = [n for task in known for split in task.reported_splits for n in task.files[split]]
    wanted += [n for file in EVALUATION_FILES if file.task in tasks for n in file.names]
    there = [path.relative_to(data_dir.absolute()).as_posix() for path in below]
    shown = ", ".join(there[:20]) + (f" and {len(there) - 20} more" if len(there) > 20 else "")
    return (
        f"clean.decontaminate_against: no evaluation file of {name!r} below {data_dir.absolute()} "
        f"(looked for {', '.join(dict.fromkeys(wanted))}; there is: {shown or 'nothing'})"
    )
