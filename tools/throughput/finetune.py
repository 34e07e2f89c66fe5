"""How fast fine-tuning is, beside the `Trainer` of `transformers`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from tools.throughput.cost import CHECKOUT, Cost, run_measured
from tools.throughput.report import Report
from tools.throughput.texts import SHIPPED, prepare
from tools.throughput.turns import EXAMPLES, Code, Costs, per_unit, take_turns, write_headlines

_MEANING = """
Seconds of one example: a short and a long run of each are timed in turn, each in a process of its
own, and their difference holds no start. One epoch over made-up headlines in batches of 32, rows of
64 pieces at most, AdamW, linear warm-up and decay. Trainer is that of transformers with its
AutoModelForSequenceClassification, as a user writes it. Medians over rounds; ratios are within a
round.
"""


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    peer: Annotated[bool, "measure the Trainer, too"] = False
    model: Annotated[str, "a folder"] = str(CHECKOUT / SHIPPED)
    device: Annotated[Literal["auto", "cpu", "cuda"], "where"] = "auto"
    rounds: Annotated[PositiveInt, "of both in turn"] = 2
    work: Annotated[Path, "folder for inputs and runs"] = Path("out/throughput-finetune")


def measure(settings: Settings) -> Report:
    """Fine-tune by both in turn; `UserError` where a run fails."""
    work = settings.work.resolve()
    tasks = write_headlines(work / "tasks")
    code = Code("electrify", CHECKOUT, work)
    code.write_config(prepare(work / "input", None, (), 0.01), evaluate={"device": settings.device})
    peer = Path(__file__).with_name("trainer_peer.py")

    def trainer(num_examples: int) -> Cost:
        words = settings.model, tasks, num_examples, settings.device
        command = [sys.executable, str(peer), *map(str, words)]
        return run_measured(command, work / "peer.log", OMP_NUM_THREADS="1")

    runs: dict[str, Callable[[], Costs]] = {"electrify": lambda: finetune(code, settings.model)}
    if settings.peer:
        runs["Trainer"] = lambda: {"an example": (per_unit(trainer, EXAMPLES), None)}
    rows = take_turns(runs, settings.rounds)
    conditions = {"model": Path(settings.model).name, "device": settings.device}
    report = Report("Fine-tuning", ("torch", "transformers"), conditions)
    report.add("systems", "Systems", _MEANING, rows)
    return report


def finetune(code: Code, model: str) -> Costs:
    """What an example costs in the code of a checkout."""
    words = ("--model", model, "--task", "klue-ynat", "--data-dir", str(code.work / "tasks"))

    def run(num_examples: int) -> Cost:
        limit = f"evaluate.max_train_examples={num_examples}"
        return code.run("evaluate", "evaluate", *words, "--set", limit)

    return {"an example": (per_unit(run, EXAMPLES), None)}
