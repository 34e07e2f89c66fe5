"""What came out of a run of a grid: cost, last validation, scores, scores on the way."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from benchmarks.ablate.plan import Run, run_label
from benchmarks.report_sections import curve, final_valid
from benchmarks.results import Result
from benchmarks.run_folder import Json, read_run
from electrify.config import RunConfig
from electrify.stages import output_dir

LOSSES = {
    "generator_loss": "generator, MLM loss",
    "language_loss": "main network, MLM loss",
    "rtd_loss": "RTD loss",
}
Scores = Mapping[str, float]  # by task: the headline, mean over seeds of fine-tuning


@dataclass(frozen=True)
class RunFigures:
    """One finished run."""

    variant: str
    seed: int
    summary: Json
    valid: Json  # of the last validation
    losses: Mapping[str, Sequence[tuple[float, float]]]  # by metric: (FLOPs, held-out loss)
    scores: Scores
    untrained: Scores  # of the control, empty where there was none
    records: Mapping[str, Result]  # by task: one of them, which tells metric and examples
    num_degenerate: int  # fine-tunings that learnt nothing
    on_the_way: Sequence[tuple[float, Scores]]  # FLOPs and scores of checkpoints, the last one too
    hours: float  # of pretraining and fine-tuning, checkpoints' too
    made_by: Json  # commit and versions of pretraining

    @property
    def label(self) -> str:
        """As the log names the run."""
        return run_label(self.variant, self.seed)

    @property
    def flops(self) -> float:
        """Of pretraining, in matrix products."""
        return float(self.summary["flops_matmul"])

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        keep = ("num_steps", "tokens", "tokens_per_second", "flops_matmul", "flops_paper",
                "parameters", "seconds", "device")  # fmt: skip
        return {
            "variant": self.variant,
            "seed": self.seed,
            **{key: self.summary.get(key) for key in keep},
            "made_by": dict(self.made_by),
            "valid": dict(self.valid),
            "num_degenerate": self.num_degenerate,
            "scores": _defined(self.scores),
            "untrained": _defined(self.untrained),
            "on_the_way": [
                {"flops_matmul": flops, "scores": _defined(scores)}
                for flops, scores in self.on_the_way
            ],
        }


def _defined(scores: Scores) -> dict[str, float | None]:
    return {task: None if math.isnan(score) else score for task, score in scores.items()}


def read_figures(run: Run) -> RunFigures:
    """Of a finished run; `ValueError` if a file of it is damaged."""
    found = read_run(output_dir(run.config))
    results = found.evaluations.get("evaluate", ())
    manifest = found.manifests["pretrain"]
    scores = _scores(results, "pretrained")
    points = [
        (_flops_at(run.config, step), _scores(records, "pretrained"))
        for step, records in found.checkpoint_evaluations.items()
        if step < 0.99 * int(found.summary["num_steps"])  # nearer it is the last one
    ]
    of_checkpoints = (r for records in found.checkpoint_evaluations.values() for r in records)
    seconds = float(found.summary["seconds"])
    seconds += sum(result.seconds for result in chain(results, of_checkpoints))
    return RunFigures(
        variant=run.variant,
        seed=run.seed,
        summary=found.summary,
        valid=final_valid(found),
        losses={
            metric: [
                (_flops_at(run.config, int(step)), value)
                for step, value in curve(found, "valid", metric)
            ]
            for metric in LOSSES
        },
        scores=scores,
        untrained=_scores(results, "random-init"),
        records={result.task: result for result in results},
        num_degenerate=sum(result.degenerate is not None for result in results),
        on_the_way=[*points, (float(found.summary["flops_matmul"]), scores)] if points else (),
        hours=seconds / 3600,
        made_by={key: manifest.get(key) for key in ("git_commit", "versions", "finished_at")},
    )


def _flops_at(config: RunConfig, step: int) -> float:
    """In matrix products, of the first steps: phases and stages cost more or less each."""
    from model.flops import run_flops

    length = config.encode.sequence_length
    return run_flops(config.pretrain, config.vocab.size, length, step).matmul


def _scores(results: Sequence[Result], model: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for result in results:
        if result.model == model:
            values.setdefault(result.task, []).append(result.value)
    return {task: statistics.fmean(of_task) for task, of_task in values.items()}
