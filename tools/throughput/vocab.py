"""The cost of training a vocabulary beside `tokenizers`; every run is a process of its own."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from pydantic import PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from electrify.config.vocab import VocabConfig
from electrify.stage.folder import write_json
from pipeline.documents import document_paths
from tools.throughput.cost import CHECKOUT, run_measured
from tools.throughput.report import Report
from tools.throughput.texts import prepare, rules_off
from tools.throughput.turns import Code, Costs, take_turns

PEER = "BertWordPieceTokenizer"
_PACKAGES = ("tokenizers", "apache-beam", "kiwipiepy", "numpy", "pyarrow")
_MEANING = f"""
Documents are cleaned by no rule. {PEER}: `train_from_iterator` over the same files, 64 documents at
a time, same size, alphabet and least frequency. Costs are of all processes with their start.
"""


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    peer: Annotated[bool, "measure tokenizers, too"] = False
    data_dir: Annotated[Path | None, "folder with corpora/; without, made-up texts"] = None
    work: Annotated[Path, "folder for inputs and runs"] = Path("out/throughput-vocab")
    corpora: Annotated[tuple[str, ...], "languages below it, or files as ko/laws"] = ("ko",)
    megabytes: Annotated[PositiveFloat | None, "of JSON Lines, spread evenly"] = None
    vocab_size: Annotated[PositiveInt | None, "pieces; 32,000, or 8,000 below 20 MB"] = None
    pretokenizer: Annotated[Literal["whitespace", "kiwi"], "of ours"] = "whitespace"


def measure(settings: Settings) -> Report:
    """Clean, then train by both; `UserError` if there are no data or a run fails."""
    work = settings.work.resolve()
    prepared = prepare(work / "input", settings.data_dir, settings.corpora, settings.megabytes)
    megabytes = prepared.num_bytes / 1e6
    size = settings.vocab_size or (32_000 if megabytes > 20 else 8_000)
    code = Code("electrify", CHECKOUT, work)
    dedup = dict.fromkeys(("exact_dedup", "line_dedup.enabled", "near_dedup.enabled"), False)
    vocab = {"size": size, "pretokenizer": settings.pretokenizer}
    code.write_config(prepared, rules_off() | dedup, vocab=vocab)
    code.make_inputs(["clean"])

    def tokenizers() -> Costs:
        names = ("min_frequency", "limit_alphabet")
        options = {"vocab_size": size} | VocabConfig(size=size).model_dump(include=set(names))
        documents = [str(path) for path in document_paths(code.output("clean"))]
        write_json(work / "task.json", {"options": options, "documents": documents})
        words = "-m", "tools.throughput.tokenizers_peer", work / "task.json", work / "peer.json"
        command = [sys.executable, *map(str, words)]
        return {"training": (run_measured(command, work / "peer.log"), megabytes)}

    def electrify() -> Costs:
        return {"training": (code.run("train-vocab", "vocab"), megabytes)}

    runs = {"electrify": electrify} | ({PEER: tokenizers} if settings.peer else {})
    report = Report("The vocabulary", _PACKAGES, prepared.conditions() | vocab)
    report.add("systems", "Systems", _MEANING, take_turns(runs, 1))
    return report
