"""Runs of verbs in the code of a checkout, and two or more systems timed in alternating turns."""

import json
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from electrify.system.progress import log
from tools.throughput.cost import CHECKOUT, Cost
from tools.throughput.report import Row
from tools.throughput.texts import Prepared, run_electrify, write_config

EXAMPLES = (64, 320)  # of a short and a long fine-tuning
_STAGES = {"clean": "clean", "train-vocab": "vocab", "encode": "shards"}
# keys that commits of all times know: they have never been renamed
_LATER_STAGES: dict[str, dict[str, object]] = {
    "vocab": {"size": 6000},
    "encode": {"valid_fraction": 0.05},
    "pretrain": {"size": "small", "num_hidden_layers": 4, "batch_size": 8, "device": "cpu"},
    "evaluate": {
        "seeds": [0],
        "random_init_control": False,
        "num_epochs": 1,
        "batch_size": 32,
        "max_sequence_length": 64,
        "device": "cpu",
    },
}

# what was run: its cost, and the megabytes that went through it
Costs = Mapping[str, tuple[Cost, float | None]]


@dataclass(frozen=True)
class Code:
    """A checkout, and the folder of its runs."""

    name: str
    checkout: Path
    work: Path

    def write_config(self, prepared: Prepared, **changed: Mapping[str, object]) -> None:
        """Of all stages; `changed` are options by section."""
        sections = [
            "\n".join(
                [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
            )
            for name, default in _LATER_STAGES.items()
            for keys in [{**default, **changed.get(name, {})}]
        ]
        write_config(prepared, self.work, sections)

    def output(self, stage: str) -> Path:
        return self.work / "out" / stage

    def run(self, verb: str, stage: str, *words: str) -> Cost:
        """Run a verb again; `UserError` if it fails."""
        for folder in [*self.output("").glob(f"{stage}*"), self.output(".work")]:
            shutil.rmtree(folder, ignore_errors=True)
        # one thread: how long others wait for work would be counted, too
        return run_electrify(
            verb, self.work / "config.toml", *words, checkout=self.checkout, OMP_NUM_THREADS="1"
        )

    def make_inputs(self, verbs: Sequence[str]) -> None:
        """Run the stages before the one that is timed."""
        for verb in verbs:
            log(f"{self.name}: {verb}, not timed")
            self.run(verb, _STAGES[verb])


def per_unit(run: Callable[[int], Cost], sizes: tuple[int, int]) -> Cost:
    """The cost of one unit, by a run of few units and one of many."""
    few, many = run(sizes[0]), run(sizes[1])
    units = sizes[1] - sizes[0]
    cpu, wall = many.cpu_seconds - few.cpu_seconds, many.wall_seconds - few.wall_seconds
    return Cost(wall / units, cpu / units)


def take_turns(runs: Mapping[str, Callable[[], Costs]], rounds: int) -> list[Row]:
    """A row for each thing run and each system; ratios are those of the others to the first."""
    costs: dict[str, list[Costs]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in list(runs) if number % 2 == 0 else reversed(list(runs)):
            costs[name].append(runs[name]())
            said = (f"{what} {cost.cpu_seconds:.4g}" for what, (cost, _) in costs[name][-1].items())
            log(f"{name}: CPU seconds of {', '.join(said)}")
    first = next(iter(runs))
    rows: list[Row] = []
    for what in costs[first][0]:
        for name, turns in costs.items():
            pairs = [
                (turn[what][0], its[what][0]) for turn, its in zip(turns, costs[first], strict=True)
            ]
            cpu = statistics.median(mine.cpu_seconds for mine, _ in pairs)
            megabytes = turns[0][what][1]
            row = {
                "what": what,
                "system": name,
                "cpu_seconds": cpu,
                "mb_per_cpu_second": megabytes / cpu if megabytes else None,
                "seconds": statistics.median(mine.wall_seconds for mine, _ in pairs),
                "ratio_of_cpu_seconds": None,
                "ratio_of_seconds": None,
            }
            if name != first:
                ratios = [mine.cpu_seconds / its.cpu_seconds for mine, its in pairs]
                row["ratio_of_cpu_seconds"] = statistics.median(ratios)
                ratios = [mine.wall_seconds / its.wall_seconds for mine, its in pairs]
                row["ratio_of_seconds"] = statistics.median(ratios)
            rows.append(row)
    return rows


def write_headlines(folder: Path) -> Path:
    """The bundled made-up headlines under the names of KLUE-YNAT's files."""
    sample = CHECKOUT / "pipeline" / "sample"
    (folder / "ynat").mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "made-up-headlines"), ("dev", "made-up-headlines-dev")):
        shutil.copy(sample / f"{name}.json", folder / "ynat" / f"ynat-v1.1_{split}.json")
    return folder
