"""What evaluations leave: predictions, results, reports; and golden values."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.torture.fuzz_target import Reader, Target, of_file

_DIGEST = "0" * 64
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


def _json_file(name: str, read: Callable[[Path], object], *values: Any) -> Callable[[Path], Reader]:
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


def _estimate(value: float) -> dict[str, float | None]:
    return {"value": value, "low": None, "high": None}


def _masked(folder: Path) -> object:
    from electrify.stage.masked_report import read_report

    return read_report(folder).step


def _leakage(folder: Path) -> object:
    from electrify.stage.leakage_report import read_report

    return len(read_report(folder).tasks)


_MASKED = {
    "objective": "rtd",
    "step": 3,
    "seed": 0,
    "split": "valid",
    "sequence_length": 16,
    "mask_fraction": 0.15,
    "num_candidates": None,
    "main": "discriminator",
    "positions_sha256": _DIGEST,
    "examples": [],
    "contexts": {
        "as in training": {
            "languages": {},
            "all": {
                "num_sequences": 1,
                "num_positions": 2,
                "coverage": None,
                "gains": {},
                "predictors": {"generator": {"accuracy": _estimate(0.5)}},
            },
        }
    },
}
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

    seeds = [json.dumps(golden).encode() for golden in _golden_files()]
    words = (b'"nan"', b'{"error": "x"}', b'"expected_other": {}')
    return of_file(folder / "golden.json", read, seeds, form="json", words=words)


def _golden_files() -> list[dict[str, Any]]:
    """Small files for the adapters: labels for every task, and what those of other shapes read."""
    from benchmarks.golden.check import ADAPTERS

    rows = {"default": [0, 1, 1, 2, 0]}
    predicted = {"a": {"ref": "default", "pred": [0, 1, 2, 2, 1]}}
    expected = {"a": {"accuracy": 60.0, "mcc": 40.0, "macro_f1": "nan"}}
    of_labels = [(task, rows, predicted, expected) for task in sorted(ADAPTERS)]
    return [
        {
            "task": task,
            "references": references,
            "predictions": predictions,
            "expected": wanted,
            "expected_other": {},
        }
        for task, references, predictions, wanted in (*of_labels, *_GOLDEN)
    ]


_QUESTIONS = {
    "version": "1",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "a b c",
                    "qas": [
                        {
                            "id": "q0",
                            "guid": "q0",
                            "question": "a?",
                            "question_type": 1,
                            "is_impossible": False,
                            "answers": [{"text": "b c", "answer_start": 2}],
                        }
                    ],
                }
            ],
        }
    ],
}
_ONE_HOT = [[0.9 * (column == row) + 0.003 for column in range(30)] for row in (0, 3, 5)]
_GOLDEN: tuple[tuple[str, Any, Any, Any], ...] = (
    (
        "glue/stsb",
        {"default": [5.0, 2.75, 1.0]},
        {"a": {"ref": "default", "pred": [4.5, "nan", 1]}},
        {"a": {"pearson": "nan", "spearman": 50.0, "mse": 0.1}},
    ),
    (
        "glue/overall",
        {},
        {"a": {"cola": {"mcc": 25.6}, "mrpc": {"f1": 90.3, "accuracy": 75.6}}},
        {"a": {"task_scores": {"cola": 25.6, "mrpc": 82.95}}},
    ),
    (
        "klue/re",
        {"default": [0, 3, 5]},
        {"a": {"ref": "default", "probs": _ONE_HOT}},
        {"a": {"micro_f1": 100.0, "auprc": 100.0}},
    ),
    (
        "klue/dp",
        {"default": {"heads": [[2, 0]], "types": [[1, 2]]}},
        {"a": {"ref": "default", "heads": [[2, 0]], "types": [[1, 2]]}},
        {"a": {"uas_macro_f1": 100.0, "las_macro_f1": 100.0}},
    ),
    (
        "klue/wos",
        {"default": [["관광-지역-서울"]]},
        {"a": {"ref": "default", "pred": [[]]}},
        {"a": {"joint_goal_acc": 0.0, "slot_micro_f1": 0.0}},
    ),
    ("squad_v1.1", _QUESTIONS, {"a": {"q0": "b"}}, {"a": {"exact_match": 0.0, "f1": 66.6}}),
    (
        "squad_v2.0",
        _QUESTIONS,
        {"a": {"pred": {"q0": "b"}, "na_prob": {"q0": 0.5}}},
        {"a": {"exact": 0.0, "f1": 66.6, "total": 1}},
    ),
    ("klue/mrc", _QUESTIONS, {"a": {"q0": "b"}}, {"a": {"exact_match": 0.0, "rouge_w": 50.0}}),
    (
        "korquad_v1.0",
        _QUESTIONS,
        {"a": {"q0": "b"}},
        {"a": {"official_exact_match": 0.0, "official_f1": 50.0}},
    ),
    (
        "confidence intervals and significance",
        {},
        {
            "trials/a": [80.9, 81.7],
            "items/a": [0, 1, 1],
            "bootstrap/a": [[0, 1], [1, 1]],
            "pooled/a": {"stderrs": [0.1, 0.2], "sizes": [5, 6]},
            "mcnemar/a": {"references": [0, 1], "predictions1": [0, 1], "predictions2": [1, 1]},
        },
        {
            "trials/a": {"mean": 81.3, "ci95_half_width": 0.5},
            "items/a": {"mean_stderr": 0.1},
            "bootstrap/a": {"iters": 20, "f1_stderr": 0.1},
            "pooled/a": {"pooled_sample_stderr": 0.1},
            "mcnemar/a": {"stat": 0.0, "p": 1.0},
        },
    ),
)


TARGETS = (
    Target("predictions", _predictions, 2),
    Target("results", _results, 1),
    Target("run-folder", _run_folder, 0.5),
    Target("metrics-lines", _metrics_lines, 2),
    Target("masked-report", _json_file("report.json", _masked, _MASKED), 2),
    Target("leakage-report", _json_file("report.json", _leakage, _LEAKAGE), 2),
    Target("golden", _golden, 3),
)
