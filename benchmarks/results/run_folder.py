"""Reads a run's folder, finished or in part, into plain values for the report."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.results.results import RESULTS, Result, current_results, largest_part
from electrify.config.fields import NOISE_SUITES
from electrify.stage.folder import MANIFEST, fingerprint, read_manifest
from electrify.stage.plan import METRICS, VERBS
from electrify.storage.files import parse_json, read_json
from electrify.system.outcome import UserError

Json = Mapping[str, Any]


@dataclass(frozen=True, eq=False)  # hashed as an object: what is made of one is kept
class RunFolder:
    """What a run folder holds; of a stage not made yet, the empty value.

    `manifests` and `evaluations` are keyed by stage folder: `evaluate` scores the run's own
    export, `evaluate-<label>` another encoder; the records are the headline's, those that learnt
    from most of the training split. `unfinished` names stages of which only a part is there, with
    the metrics and records written so far.
    """

    folder: Path
    manifests: Mapping[str, Json]
    unfinished: tuple[str, ...]
    corpus: Json
    vocabulary: Json
    summary: Json
    metrics: tuple[Json, ...]
    evaluations: Mapping[str, tuple[Result, ...]]
    # of checkpoints on the way, by step
    checkpoint_evaluations: Mapping[int, tuple[Result, ...]] = field(default_factory=dict)
    # records of every part of the training split, by stage, where there are several
    low_shot: Mapping[str, tuple[Result, ...]] = field(default_factory=dict)
    # folders of finished suites of noise by stage: `robustness` looks at the run's own export,
    # `robustness-<label>` at another encoder
    noise: Mapping[str, Path] = field(default_factory=dict)
    path: str = ""  # the end of its path that no run beside it has, instead of its name

    @property
    def name(self) -> str:
        """By which every table and page knows the run and its own encoder."""
        return self.path or self.folder.resolve().name

    def stage_folder(self, stage: str) -> Path:
        """Where a stage's files stand: in its folder, or in the partial one while unfinished."""
        return self.folder / (f"{stage}.partial" if stage in self.unfinished else stage)

    def config(self, stage: str) -> Json:
        config: Json = self.manifests.get(stage, {}).get("config", {})
        return config


def has_stages(run: RunFolder) -> bool:
    """Whether there is any stage of a run, and not scores alone (`evaluate --model`)."""
    return bool((VERBS.keys() - {"evaluate"}) & {*run.manifests, *run.unfinished})


def stages_there(folder: Path) -> dict[str, Path]:
    """Where each stage of a run's folder stands, finished or in part; `UserError` if there is none.

    A suite that looks at the run has a folder of its own for each encoder.
    """
    if not folder.is_dir():
        raise UserError(f"no folder {folder}; run first: electrify run CONFIG")
    stages = [*VERBS, *NOISE_SUITES]
    others = {p.name for kind in ("evaluate", *NOISE_SUITES) for p in folder.glob(f"{kind}-*")}
    stages += sorted({name.removesuffix(".partial") for name in others})
    present = {
        stage: path
        for stage in stages
        for path in (folder / f"{stage}.partial", folder / stage)  # a finished one goes before
        if (path / MANIFEST).exists() or (path.suffix == ".partial" and path.is_dir())
    }
    if not present:
        raise UserError(
            f"{folder} is no run folder: it has none of {', '.join(VERBS)}. "
            "Give the output_dir of a run, such as out/demo"
        )
    return present


def read_run(folder: Path) -> RunFolder:
    """Read a run's folder; `ValueError` if it is none, or if a file of a stage is damaged."""
    present = stages_there(folder)
    evaluations: dict[str, tuple[Result, ...]] = {}
    checkpoint_evaluations: dict[int, tuple[Result, ...]] = {}
    low_shot: dict[str, tuple[Result, ...]] = {}
    for stage, path in present.items():
        if not stage.startswith("evaluate"):
            continue
        sound_file(path, RESULTS)
        records = current_results(path)
        headline = tuple(largest_part(records))
        if match := re.fullmatch(r"evaluate-checkpoint-(\d+)", stage):
            checkpoint_evaluations[int(match[1])] = headline
        else:
            evaluations[stage] = headline
        if len(headline) < len(records):
            low_shot[stage] = tuple(records)
    unfinished = tuple(stage for stage, path in present.items() if path.suffix == ".partial")
    return RunFolder(
        folder=folder,
        manifests={s: read_manifest(p) for s, p in present.items() if s not in unfinished},
        unfinished=unfinished,
        corpus=_object(present.get("clean"), "report.json"),
        vocabulary=_object(present.get("vocab"), "report.json"),
        summary=_object(present.get("pretrain"), "summary.json"),
        metrics=tuple(_records(present.get("pretrain"), METRICS)),
        evaluations=evaluations,
        checkpoint_evaluations=dict(sorted(checkpoint_evaluations.items())),
        low_shot=low_shot,
        noise={
            stage: sound_file(path, f"{stage.partition('-')[0]}.csv").parent
            for stage, path in present.items()
            if stage.startswith(NOISE_SUITES) and stage not in unfinished
        },
    )


def with_distinct_names(runs: Sequence[RunFolder]) -> list[RunFolder]:
    """The runs, each under the shortest end of its path that no other has."""
    paths = [run.folder.resolve().parts for run in runs]

    def end(path: tuple[str, ...]) -> tuple[str, ...]:
        ends = (path[-length:] for length in range(1, len(path)))
        return next((e for e in ends if [p[-len(e) :] for p in paths].count(e) == 1), path)

    return [replace(run, path="/".join(end(path))) for run, path in zip(runs, paths, strict=True)]


def results_folder(path: Path) -> Path | None:
    """The folder of a file `results.jsonl`, or one that holds such a file; None for a run."""
    folder = path.parent if path.name == RESULTS else path
    return folder if (folder / RESULTS).is_file() else None


def read_scores(path: Path) -> RunFolder:
    """A run's folder, or the scores of anyone: a folder with `results.jsonl`, or that file.
    `ValueError` where there is none of these, or if a file is damaged."""
    folder = results_folder(path)
    if folder is not None:
        records = tuple(largest_part(current_results(folder)))
        return RunFolder(folder, {}, (), {}, {}, {}, (), {"": records})
    return read_run(path)


def sound_file(folder: Path, name: str) -> Path:
    """A file of a stage; `ValueError` if, in a finished one, it is not as it was written."""
    path = folder / name
    if (folder / MANIFEST).exists() and path.is_file():
        entry = read_manifest(folder)["files"].get(name)
        if entry is not None and fingerprint(str(path)) != entry["sha256"]:
            raise UserError(
                f"{path} has changed since it was made: put the old file back, or remove {folder} "
                "and make it again"
            )
    return path


def _object(folder: Path | None, name: str) -> Json:
    """A JSON file of a stage or of figures beside the scores; empty if it is not there."""
    if folder is None or not (path := sound_file(folder, name)).is_file():
        return {}
    try:
        value = read_json(path)
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); remove {folder}, run it again") from None
    if not isinstance(value, dict):
        raise UserError(f"{path} holds a {type(value).__name__} where an object is expected")
    return value


def _records(folder: Path | None, name: str) -> Iterator[Json]:
    """JSON objects, one a line; the last line of a partial stage may be cut off by a kill."""
    if folder is None or not (path := sound_file(folder, name)).is_file():
        return
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_json(line, f"{path}, line {number} is damaged: it")
        except ValueError:
            if number == len(lines) and folder.suffix == ".partial":
                return
            raise
        if not isinstance(record, dict):
            raise UserError(f"{path}, line {number} is damaged: it holds no object")
        yield record
