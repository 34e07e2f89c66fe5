"""The vocabulary and the token shards: the cost of training beside `tokenizers`, and of encoding.

Every run is a process of its own.
"""

import sys
from pathlib import Path
from typing import Annotated, Literal

from pydantic import PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from electrify.config.vocab import VocabConfig
from electrify.stage.folder import write_json
from electrify.system.progress import log
from pipeline.documents import document_paths, list_row_groups, read_group
from tools.throughput.cost import run_measured
from tools.throughput.report import Report
from tools.throughput.texts import prepare, rules_off, run_electrify, write_config

PEER = "BertWordPieceTokenizer"
_PACKAGES = ("tokenizers", "apache-beam", "kiwipiepy", "numpy", "pyarrow")
_MEANING = f"""
Documents are cleaned by no rule. {PEER}: `train_from_iterator` over the same files, 64 documents at
a time, same size, alphabet and least frequency. Costs are of all processes with their start; memory
is the largest sum of proportional set sizes, sampled twice a second. Times as fast: CPU seconds.
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
    """Clean, train and encode; `ValueError` if there are no data or a run fails."""
    work = settings.work.resolve()
    prepared = prepare(work / "input", settings.data_dir, settings.corpora, settings.megabytes)
    size = settings.vocab_size or (32_000 if prepared.num_bytes > 20e6 else 8_000)
    vocab = f'[vocab]\nsize = {size}\npretokenizer = "{settings.pretokenizer}"'
    dedup = ("exact_dedup", "line_dedup.enabled", "near_dedup.enabled")
    clean = rules_off() | dict.fromkeys(dedup, False)
    config = write_config(prepared, work, clean, [vocab, "[encode]", "[pretrain]"])
    run_electrify("clean", config)
    documents = document_paths(work / "out" / "clean")
    groups = list_row_groups(documents)
    num_bytes = sum(len(row["text"].encode()) for of in groups for row in read_group(of, ["text"]))
    log("training")
    ours = run_electrify("train-vocab", config)
    rows = [ours.row("electrify train-vocab", num_bytes)]
    if settings.peer:
        log(f"training by {PEER}")
        names = ("min_frequency", "limit_alphabet")
        options = {"vocab_size": size} | VocabConfig(size=size).model_dump(include=set(names))
        task = work / "task.json"
        write_json(task, {"options": options, "documents": list(map(str, documents))})
        command = ["-m", "tools.throughput.tokenizers_peer", str(task), str(work / "peer.json")]
        peer = run_measured([sys.executable, *command], work / "peer.log")
        rows.append(peer.row(PEER, num_bytes, ours))
    log("encoding")
    rows.append(run_electrify("encode", config).row("electrify encode", num_bytes))
    conditions = {"vocab_size": size, "pretokenizer": settings.pretokenizer}
    report = Report(
        "The vocabulary and the token shards", _PACKAGES, prepared.conditions() | conditions
    )
    report.add("systems", "Systems", _MEANING, rows)
    return report
