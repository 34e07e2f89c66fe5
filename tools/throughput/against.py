"""What a stage costs beside the same stage of an earlier commit, in alternating turns.

A run of a verb is a process of its own, in the checkout whose code it is. Of `pretrain` and
`finetune` a short and a long run are timed in each turn: their difference has no start in it.
"""

import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass as checked

from electrify.stage.folder import write_json
from electrify.system.outcome import UserError
from electrify.system.progress import log
from pipeline.documents import document_paths, list_row_groups, read_group
from tools.throughput.cost import CHECKOUT, Cost
from tools.throughput.report import Report, Row
from tools.throughput.texts import (
    SHIPPED,
    Prepared,
    prepare,
    run_electrify,
    sample_words,
    write_config,
)

# texts of several kinds: prose, tables of law, Markdown in two languages, novels, short comments
_MIXED = (
    "ko/petitions",
    "ko/laws",
    "ko/tensorflow-docs",
    "ko/kocohub-comments",
    "en/tensorflow-docs",
    "ja/aozora",
)
_MEGABYTES = {"vocab": 20.0, "pretrain": 2.0}  # of texts that are there, unless --megabytes says
_WORKERS = "--direct_running_mode=multi_processing", "--direct_num_workers=2"
_STEPS, _EXAMPLES = (2, 34), (64, 320)  # of the short and the long run
# keys that both commits know: those that have never been renamed
_LATER_STAGES = f"""
[vocab]
size = 8000
[encode]
[pretrain]
size = "small"
num_hidden_layers = 4
batch_size = 8
num_steps = {_STEPS[1]}
device = "cpu"
[evaluate]
seeds = [0]
random_init_control = false
num_epochs = 1
batch_size = 32
max_sequence_length = 64
device = "cpu"
"""
_MEANING = """
CPU seconds of all processes with their start, also of workers that outlive the command. Medians
over rounds; the order changes in each. Ratio: CPU seconds of this code for those of the commit,
the median over rounds of the ratio within a round; below 1 this code is cheaper. Documents are
those that the code of the row made by the defaults of [clean], by two workers. Products have one
thread. Of pretraining and fine-tuning the seconds are those of one step and of one example.
"""


@checked(frozen=True)
class Settings:
    """What the command was asked for."""

    against: Annotated[str, "the commit whose code is timed, too"]
    data_dir: Annotated[Path | None, "folder with corpora/; without, words in random order"] = None
    corpora: Annotated[tuple[str, ...], "languages below it, or files as ko/laws"] = _MIXED
    megabytes: Annotated[PositiveFloat | None, "of JSON Lines, spread evenly"] = None
    rounds: Annotated[PositiveInt, "of both in turn"] = 2
    work: Annotated[Path, "folder for inputs and runs"] = Path("out/throughput-against")


@dataclass(frozen=True)
class Code:
    """A checkout, and the folder of its runs."""

    name: str
    checkout: Path
    work: Path

    @property
    def config(self) -> Path:
        return self.work / "config.toml"

    def output(self, stage: str) -> Path:
        return self.work / "out" / stage

    def run(self, verb: str, stage: str, *words: str) -> Cost:
        """Run a verb anew; `UserError` if it fails."""
        for folder in [*self.output("").glob(f"{stage}*"), self.output(".work")]:
            shutil.rmtree(folder, ignore_errors=True)
        # one thread: how long others wait for work would be counted, too
        return run_electrify(verb, self.config, *words, checkout=self.checkout, OMP_NUM_THREADS="1")

    def make_inputs(self, *verbs: str) -> None:
        """Run the stages before the one that is timed."""
        stages = {"clean": "clean", "train-vocab": "vocab", "encode": "shards"}
        for verb in verbs:
            log(f"{self.name}: {verb}, not timed")
            self.run(verb, stages[verb])


Costs = Mapping[str, tuple[float, float | None]]  # CPU seconds and megabytes, by what was run


def measure(stage: str, settings: Settings) -> Report:
    """Time a stage of the commit and of this checkout; `UserError` where a run fails."""
    run, inputs = _STAGES[stage]
    work = settings.work.resolve() / stage
    megabytes = settings.megabytes or (_MEGABYTES.get(stage) if settings.data_dir else None)
    costs: dict[str, list[Costs]] = {}
    with tempfile.TemporaryDirectory() as folder:
        commit = _check_out(settings.against, Path(folder))
        prepared = prepare(work / "input", settings.data_dir, settings.corpora, megabytes)
        _write_headlines(work / "tasks")
        codes = [Code(commit, Path(folder), work / "commit"), Code("this", CHECKOUT, work / "this")]
        for code in codes:
            write_config(prepared, code.work, {}, [_LATER_STAGES])
            code.make_inputs(*inputs)
        for number in range(settings.rounds):
            for code in codes if number % 2 == 0 else reversed(codes):
                costs.setdefault(code.name, []).append(run(code, prepared))
                log(f"{code.name}: {_in_words(costs[code.name][-1])}")
    conditions = {"commit": commit, "rounds": settings.rounds} | prepared.conditions()
    report = Report(f"{stage} beside commit {commit}", ("apache-beam", "torch"), conditions)
    report.add("systems", "Systems", _MEANING, _rows(costs, commit))
    return report


def _corpus(code: Code, prepared: Prepared) -> Costs:
    cost = code.run("clean", "clean", "--", *_WORKERS)
    return {"clean": (cost.cpu_seconds, prepared.num_bytes / 1e6)}


def _vocab(code: Code, _: Prepared) -> Costs:
    groups = list_row_groups(document_paths(code.output("clean")))
    texts = (row["text"] for group in groups for row in read_group(group, ["text"]))
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    training = code.run("train-vocab", "vocab")
    encoding = code.run("encode", "shards")
    return {
        "train-vocab": (training.cpu_seconds, megabytes),
        "encode": (encoding.cpu_seconds, megabytes),
    }


def _pretrain(code: Code, _: Prepared) -> Costs:
    def run(num_steps: int) -> Cost:
        return code.run("pretrain", "pretrain", "--set", f"pretrain.num_steps={num_steps}")

    return {"a step": (_per_unit(run, _STEPS), None)}


def _finetune(code: Code, _: Prepared) -> Costs:
    words = "--model", str(CHECKOUT / SHIPPED), "--task", "klue-ynat"
    words += "--data-dir", str(code.work.parent / "tasks")

    def run(num_examples: int) -> Cost:
        limit = f"evaluate.max_train_examples={num_examples}"
        return code.run("evaluate", "evaluate", *words, "--set", limit)

    return {"an example": (_per_unit(run, _EXAMPLES), None)}


def _per_unit(run: Callable[[int], Cost], sizes: tuple[int, int]) -> float:
    """CPU seconds of one unit, of runs of two sizes."""
    few, many = (run(size).cpu_seconds for size in sizes)
    return (many - few) / (sizes[1] - sizes[0])


# how a stage is timed, and the stages before it
_STAGES: dict[str, tuple[Callable[[Code, Prepared], Costs], tuple[str, ...]]] = {
    "corpus": (_corpus, ()),
    "vocab": (_vocab, ("clean",)),
    "pretrain": (_pretrain, ("clean", "train-vocab", "encode")),
    "finetune": (_finetune, ()),
}


def _rows(costs: Mapping[str, list[Costs]], commit: str) -> list[Row]:
    rows: list[Row] = []
    for what in costs[commit][0]:
        before = [turn[what][0] for turn in costs[commit]]
        for name, turns in costs.items():
            seconds = [turn[what][0] for turn in turns]
            megabytes = turns[0][what][1]
            median = statistics.median(seconds)
            ratios = [mine / its for mine, its in zip(seconds, before, strict=True)]
            row: dict[str, Any] = {
                "what": what,
                "code": name,
                "cpu_seconds": median,
                "mb_per_cpu_second": megabytes / median if megabytes else None,
                "ratio": None if name == commit else statistics.median(ratios),
            }
            rows.append(row)
    return rows


def _in_words(costs: Costs) -> str:
    return ", ".join(f"{what} {seconds:.4g} CPU s" for what, (seconds, _) in costs.items())


def _check_out(commit: str, folder: Path) -> str:
    """Write the files of a commit into the folder; its short name."""
    git = ("git", "-C", str(CHECKOUT))
    short = subprocess.run([*git, "rev-parse", "--short=8", commit], capture_output=True, text=True)
    if short.returncode:
        raise UserError(f"--against {commit}: no commit of {CHECKOUT}: {short.stderr.strip()}")
    archive = subprocess.run([*git, "archive", commit], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return short.stdout.strip()


def _write_headlines(folder: Path) -> None:
    """Made-up rows in the files of KLUE-YNAT: every label has words of its own."""
    labels = ("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠")
    words, folder = sample_words(), folder / "ynat"
    folder.mkdir(parents=True, exist_ok=True)
    for split, number in (("train", _EXAMPLES[1]), ("dev", 64)):
        rows = [
            {
                "guid": f"{split}-{row}",
                "title": " ".join(words[(7 * row + 13 * k) % len(words)] for k in range(8)),
                "label": labels[row % len(labels)],
            }
            for row in range(number)
        ]
        write_json(folder / f"ynat-v1.1_{split}.json", rows)
