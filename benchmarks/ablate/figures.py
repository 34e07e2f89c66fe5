"""What came out of a run of a grid: cost, last validation, scores, scores on the way."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.ablate.plan import Run
from benchmarks.report_sections import curve, final_valid
from benchmarks.results import Result
from benchmarks.run_folder import Json, read_run
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
    metrics: Mapping[str, str]  # of the scores, by task
    on_the_way: Sequence[tuple[float, Scores]]  # FLOPs and scores of checkpoints, the last one too
    hours: float  # of pretraining and fine-tuning
    made_by: Json  # commit and versions of pretraining

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
            "scores": dict(self.scores),
            "untrained": dict(self.untrained),
            "on_the_way": [
                {"flops_matmul": flops, "scores": dict(scores)} for flops, scores in self.on_the_way
            ],
        }


def read_figures(run: Run) -> RunFigures:
    """Of a finished run; `ValueError` if a file of it is damaged."""
    found = read_run(output_dir(run.config))
    results = found.evaluations.get("evaluate", ())
    manifest = found.manifests["pretrain"]
    flops = float(found.summary["flops_matmul"]) / int(found.summary["num_steps"])  # of a step
    scores = _scores(results, "pretrained")
    points = [
        (flops * step, _scores(records, "pretrained"))
        for step, records in found.checkpoint_evaluations.items()
        if step < 0.99 * int(found.summary["num_steps"])  # nearer it is the last one
    ]
    seconds = float(found.summary["seconds"]) + sum(result.seconds for result in results)
    return RunFigures(
        variant=run.variant,
        seed=run.seed,
        summary=found.summary,
        valid=final_valid(found),
        losses={
            metric: [(flops * step, value) for step, value in curve(found, "valid", metric)]
            for metric in LOSSES
        },
        scores=scores,
        untrained=_scores(results, "random-init"),
        metrics={result.task: result.metric for result in results},
        on_the_way=[*points, (flops * int(found.summary["num_steps"]), scores)] if points else (),
        hours=seconds / 3600,
        made_by={key: manifest.get(key) for key in ("git_commit", "versions", "finished_at")},
    )


def _scores(results: Sequence[Result], model: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for result in results:
        if result.model == model:
            values.setdefault(result.task, []).append(result.value)
    return {task: statistics.fmean(of_task) for task, of_task in values.items()}
