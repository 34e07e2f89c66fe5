"""What evaluations leave: predictions, results, reports; and golden values."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.reader import Make, Reader, of_file

_DIGEST = "0" * 64
_GOLDEN = Path(__file__).parents[1] / "golden"
_RESULT = {
    "suite": "klue",
    "task": "klue-ynat",
    "task_version": "1.1",
    "model": "pretrained",
    "model_path": "out/a",
    "seed": 0,
    "metric": "macro_f1",
    "value": 0.5,
    "higher_is_better": True,
    "metrics": {"macro_f1": 0.5, "accuracy": None},
    "split": "dev",
    "num_examples": 2,
    "num_train_examples": 4,
    "truncated_fraction": 0.0,
    "selection": "last",
    "degenerate": None,
    "hyper_parameters": {"batch_size": 4},
    "versions": {"torch": "2"},
    "data_sha256": {"a": _DIGEST},
    "git_commit": None,
    "seconds": 1.5,
    "train_fraction": 1.0,
}
_LINES: Mapping[str, list[dict[str, Any]]] = {
    "klue-ynat": [
        {
            "id": "a",
            "gold": "정치",
            "prediction": "경제",
            "probabilities": [0.1, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0],
        },
        {
            "id": "b",
            "gold": "경제",
            "prediction": "경제",
            "probabilities": [0.1, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0],
        },
    ],
    "klue-sts": [{"id": str(n), "gold": 1.0 + n, "prediction": 0.5 * n} for n in range(3)],
    "klue-dp": [
        {
            "id": "a",
            "gold": {"heads": [2, 0], "labels": ["NP", "VP"]},
            "prediction": {"heads": [2, 0], "labels": ["NP", None]},
            "tree": {"heads": [2, 0], "labels": ["NP", "VP"]},
        },
    ],
    "squad-2.0": [
        {
            "id": "a",
            "gold": ["b c", "b"],
            "prediction": "b",
            "answer": "b",
            "null_odds": -3.0,
            "candidates": [["b", 0.5]],
        },
        {"id": "b", "gold": [], "prediction": "", "answer": "x", "null_odds": 3.0},
    ],
    "klue-wos": [{"id": "a", "gold": ["관광-지역-서울 중앙"], "prediction": []}],
    "korean-naver-ner": [{"id": "a", "gold": ["PER-B", "O"], "prediction": ["PER-B", "PER-I"]}],
}


def _json_file(name: str, read: Callable[[Path], object], *values: Any) -> Make:
    """A reader of the folder in which the one JSON file stands."""
    seeds = [json.dumps(value, ensure_ascii=False).encode() for value in values]
    return lambda folder: of_file(folder / name, lambda p: read(p.parent), seeds, form="json")


def _predictions(folder: Path) -> Reader:
    """Written by us, changed, and scored again with its ids made to fit the header."""
    from benchmarks.results.predictions import read_predictions, write_predictions
    from benchmarks.results.rescore import scores_of
    from benchmarks.tasks.registry import TASKS

    seeds = []
    for task, lines in _LINES.items():
        write_predictions(folder / "a.jsonl", {"task": task, "split": "dev"}, lines)
        seeds.append((folder / "a.jsonl").read_bytes())

    def read(path: Path) -> object:
        header, lines = read_predictions(path)
        task = TASKS.get(str(header.get("task")))
        if task is None or not lines:
            return len(lines)
        return task.name, len(scores_of(task, "dev", {"dev": lines}, path))

    words = [b'{"header": ', b'"gold": ', b'"prediction": ', b"null", b'"NP"', b'"PER-B"', b"[]"]
    return of_file(folder / "a.jsonl", read, seeds, words=words, form="lines")


def _results(folder: Path) -> Reader:
    from benchmarks.results.results import append_result, largest_part, read_results, summarize

    second = {**_RESULT, "seed": 1, "value": None, "notes": ["x"]}
    text = b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in (_RESULT, second))

    def read(path: Path) -> object:
        found = read_results(path)
        summarize(largest_part(found))
        if found:
            append_result(path, replace_seed(found[0]))
            assert len(read_results(path)) == len(found) + 1
        return len(found)

    def replace_seed(result: Any) -> Any:
        return result.model_copy(update={"seed": 5})

    return of_file(folder / "results.jsonl", read, (text, text[:-3]), form="lines")


def _run_folder(folder: Path) -> Reader:
    """The files of a run that a report reads, one of them changed."""
    from benchmarks.results.run_folder import read_run

    run = folder / "run"
    files = {
        "clean.partial/report.json": b'{"documents": 3, "removed": []}',
        "pretrain.partial/metrics.jsonl": b'{"kind": "train", "step": 1}\n{"kind": "valid"}\n',
        "evaluate.partial/results.jsonl": json.dumps(_RESULT).encode() + b"\n",
        "export.partial/example.json": b'{"sentence": "a b"}',
    }
    for name, content in files.items():
        (run / name).parent.mkdir(parents=True)
        (run / name).write_bytes(content)
    turn = iter(range(1 << 60))

    def read(data: bytes) -> object:
        name = list(files)[next(turn) % len(files)]
        (run / name).write_bytes(data)
        try:
            return name, len(read_run(run).metrics)
        finally:
            (run / name).write_bytes(files[name])

    return Reader(tuple(files.values()), read, form="lines", named="run")


def _metrics_lines(folder: Path) -> Reader:
    """What a run that goes on reads of the lines it wrote."""
    from model.train.log import _read_lines

    text = b'{"kind": "train", "step": 1, "seconds": 1.5}\n{"step": 2, "seconds": 2, "x": "y"}\n'
    return of_file(folder / "metrics.jsonl", lambda p: list(_read_lines(p)), (text,), form="lines")


def _leakage(folder: Path) -> object:
    from electrify.stage.leakage_report import read_report

    return len(read_report(folder).tasks)


_LEAKAGE = {
    "rules": {"n": 13},
    "documents": 2,
    "sources": 1,
    "missing": [],
    "chance": [],
    "tasks": [
        {
            "task": "a",
            "task_version": "1",
            "data_sha256": {},
            "text_names": ["t"],
            "splits": [],
            "documents": [{"document": "x", "source": "s", "examples": 1}],
        }
    ],
}


def _golden(folder: Path) -> Reader:
    from benchmarks.golden.check import check_file, find_adapter, read_golden

    def read(path: Path) -> object:
        golden = read_golden(path)
        adapter = find_adapter(golden["task"])
        if adapter is None:
            return "not covered"
        return golden["task"], check_file(path, golden, adapter).num_agree > 0

    seeds = [path.read_bytes() for path in sorted(_GOLDEN.glob("*.json"))]
    words = (b'"nan"', b'{"error": "x"}', b'"expected_other": {}')
    return of_file(folder / "golden.json", read, seeds, form="json", words=words)


READERS: dict[str, Make] = {
    "predictions": _predictions,
    "results": _results,
    "run-folder": _run_folder,
    "metrics-lines": _metrics_lines,
    "leakage-report": _json_file("report.json", _leakage, _LEAKAGE),
    "golden": _golden,
}
