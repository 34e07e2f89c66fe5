"""What a stage costs beside the same stage of an earlier commit, in alternating turns.

A run of a verb is a process of its own, in the checkout whose code it is. Of `pretrain` and
`finetune` a short and a long run are timed in each turn: their difference holds no start.
"""

import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from electrify.system.outcome import UserError
from pipeline.documents import document_paths, list_row_groups, read_group
from tools.throughput.cost import CHECKOUT, Cost
from tools.throughput.finetune import finetune
from tools.throughput.report import Report
from tools.throughput.texts import SHIPPED, Prepared, prepare
from tools.throughput.turns import Code, Costs, per_unit, take_turns, write_headlines

# prose, law, Markdown in two languages, novels, short comments
_MIXED = (
    *("ko/petitions", "ko/laws", "ko/tensorflow-docs", "ko/kocohub-comments"),
    *("en/tensorflow-docs", "ja/aozora"),
)
_MEGABYTES = {"vocab": 20.0, "pretrain": 2.0}  # of texts that are there, unless --megabytes says
_WORKERS = "--direct_running_mode=multi_processing", "--direct_num_workers=2"
_STEPS = (2, 34)  # of the short and the long run
_MEANING = """
CPU seconds of all processes with their start, also of workers that outlive the command. Medians
over rounds; the order changes in each. Ratios are those of this code to the commit, medians over
rounds; below 1 this code is cheaper. Documents are those that the code of the row made by the
defaults of [clean], by two workers. Products have one thread. Of pretraining and fine-tuning the
seconds are those of one step and of one example.
"""


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    against: Annotated[str, "the commit whose code is timed, too"]
    data_dir: Annotated[Path | None, "folder with corpora/; without, made-up texts"] = None
    corpora: Annotated[tuple[str, ...], "languages below it, or files as ko/laws"] = _MIXED
    megabytes: Annotated[PositiveFloat | None, "of JSON Lines, spread evenly"] = None
    rounds: Annotated[PositiveInt, "of both in turn"] = 2
    work: Annotated[Path, "folder for inputs and runs"] = Path("out/throughput-against")


def measure(stage: str, settings: Settings) -> Report:
    """Time a stage of the commit and of this checkout; `UserError` where a run fails."""
    run, inputs = _STAGES[stage]
    work = settings.work.resolve() / stage
    megabytes = settings.megabytes or (_MEGABYTES.get(stage) if settings.data_dir else None)
    with tempfile.TemporaryDirectory() as folder:
        commit = _check_out(settings.against, Path(folder))
        prepared = prepare(work / "input", settings.data_dir, settings.corpora, megabytes)
        codes = [Code(commit, Path(folder), work / "commit"), Code("this", CHECKOUT, work / "this")]
        for code in codes:
            code.write_config(prepared)
            code.make_inputs(inputs)
        runs = {code.name: partial(run, code, prepared) for code in codes}
        rows = take_turns(runs, settings.rounds)
    conditions = {"commit": commit, "rounds": settings.rounds} | prepared.conditions()
    report = Report(f"{stage} beside commit {commit}", ("apache-beam", "torch"), conditions)
    report.add("systems", "Systems", _MEANING, rows)
    return report


def _corpus(code: Code, prepared: Prepared) -> Costs:
    return {"clean": (code.run("clean", "clean", "--", *_WORKERS), prepared.num_bytes / 1e6)}


def _vocab(code: Code, _: Prepared) -> Costs:
    groups = list_row_groups(document_paths(code.output("clean")))
    texts = (row["text"] for group in groups for row in read_group(group, ["text"]))
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    stages = {"train-vocab": "vocab", "encode": "shards"}
    return {verb: (code.run(verb, stage), megabytes) for verb, stage in stages.items()}


def _pretrain(code: Code, _: Prepared) -> Costs:
    def run(num_steps: int) -> Cost:
        return code.run("pretrain", "pretrain", "--set", f"pretrain.num_steps={num_steps}")

    return {"a step": (per_unit(run, _STEPS), None)}


def _finetune(code: Code, _: Prepared) -> Costs:
    write_headlines(code.work / "tasks")
    return finetune(code, str(CHECKOUT / SHIPPED))


# how a stage is timed, and the stages before it
_STAGES: dict[str, tuple[Callable[[Code, Prepared], Costs], tuple[str, ...]]] = {
    "corpus": (_corpus, ()),
    "vocab": (_vocab, ("clean",)),
    "pretrain": (_pretrain, ("clean", "train-vocab", "encode")),
    "finetune": (_finetune, ()),
}


def _check_out(commit: str, folder: Path) -> str:
    """Write the files of a commit into the folder; its short name."""
    git = ("git", "-C", str(CHECKOUT))
    short = subprocess.run([*git, "rev-parse", "--short=8", commit], capture_output=True, text=True)
    if short.returncode:
        raise UserError(f"--against {commit}: no commit of {CHECKOUT}: {short.stderr.strip()}")
    archive = subprocess.run([*git, "archive", commit], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return short.stdout.strip()
