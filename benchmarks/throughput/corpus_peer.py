"""The peer: datatrove in an environment of its own, on the same documents, in three settings."""

import json
import shutil
import subprocess
import sys
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.throughput.cost import Cost, run_measured
from benchmarks.throughput.texts import Prepared
from electrify.config.clean import NearDedupConfig
from electrify.system.progress import log

# datatrove hashes `str` with xxhash, which its version 4 refuses; its English tokenizer is spaCy's
_REQUIREMENTS = ("datatrove[processing,io]==0.10.1", "spacy==3.8.18", "xxhash<4")
# what its tokenizers of other languages need
_TOKENIZERS = {
    "hi": "indic-nlp-library==0.92",
    "ja": "spacy[ja]==3.8.18",
    "ko": "kiwipiepy==0.21.0",  # 0.24 lacks the model that datatrove asks for
    "vi": "pyvi==0.1.1",
    "zh": "jieba==0.42.1",
}
NAME = "datatrove 0.10.1"
NUM_TASKS = 16
_OURS = NearDedupConfig()


@dataclass(frozen=True)
class PeerSettings:
    """How the peer is set, and what a comparison with it says."""

    name: str  # in the tables
    num_bands: int
    rows_per_band: int
    words: Literal["english", "languages", "plain"]
    meaning: str


PEER_SETTINGS = (
    PeerSettings(
        f"{NAME}, its example",
        14,
        8,
        "english",
        "14 bands of 8, word 5-grams, its English tokenizer for every language. What its "
        "documented recipe gives a user. Bands and words are other than those of electrify, so "
        "neither cost nor recall compares the programs alone.",
    ),
    PeerSettings(
        f"{NAME}, its tokenizers",
        _OURS.num_bands,
        _OURS.rows_per_band,
        "languages",
        f"{_OURS.num_bands} bands of {_OURS.rows_per_band} as electrify, and the tokenizer that "
        "it assigns to each language (Korean: kiwipiepy); each language is deduplicated by itself. "
        "Both programs have the same chance to compare two texts of a given similarity; cost "
        "includes tokenizers, which electrify does without.",
    ),
    PeerSettings(
        f"{NAME}, plain words",
        _OURS.num_bands,
        _OURS.rows_per_band,
        "plain",
        f"{_OURS.num_bands} bands of {_OURS.rows_per_band}, and runs of letters and digits as "
        "words, both as electrify has them where words stand between spaces. Cost compares the "
        "programs alone. electrify also checks the similarity of each pair; datatrove joins all "
        "that share a band.",
    ),
)


@dataclass(frozen=True)
class PeerRun:
    """A finished run: its cost, wall seconds of its steps, and the output folder of each part."""

    cost: Cost
    step_seconds: dict[str, float]
    folders: tuple[Path, ...]


def install_peer(work: Path, languages: Container[str]) -> Path:
    """The Python that has datatrove and the tokenizers of these languages.

    It is made below `work`, or reused from an earlier run. `ValueError` if it cannot be installed.
    """
    folder = work / "venv"
    python = folder / "bin" / "python"
    done = folder / "requirements.txt"
    tokenizers = (package for language, package in _TOKENIZERS.items() if language in languages)
    requirements = [*_REQUIREMENTS, *tokenizers]
    wanted = "\n".join(requirements)
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    log(f"installing {NAME} into {folder}")
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", *requirements],
            check=True,
            capture_output=True,
        )
        subprocess.run(
            [str(python), "-c", "import datatrove.pipeline.dedup, spacy"],
            check=True,
            capture_output=True,
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise ValueError(f"{NAME} cannot be installed: {said[-1] if said else error}") from error
    done.write_text(wanted, encoding="utf-8")
    return python


def run_peer(
    python: Path, prepared: Prepared, settings: PeerSettings, work: Path, num_workers: int
) -> PeerRun:
    """Deduplicate the documents; `ValueError` if the command fails."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    parts = _parts(prepared, settings, work)
    task = {
        "source": str(prepared.folder),
        "num_bands": settings.num_bands,
        "rows_per_band": settings.rows_per_band,
        "num_tasks": NUM_TASKS,
        "num_workers": num_workers,
        "parts": parts,
    }
    path = work / "task.json"
    path.write_text(json.dumps(task), encoding="utf-8")
    script = Path(__file__).with_name("corpus_peer_script.py")
    cost = run_measured([str(python), str(script), str(path)], work / "log.txt")
    seconds = json.loads((work / "seconds.json").read_text(encoding="utf-8"))
    return PeerRun(cost, seconds, tuple(Path(str(part["folder"])) for part in parts))


def _parts(prepared: Prepared, settings: PeerSettings, work: Path) -> list[dict[str, object]]:
    """The files that go together, with what cuts them into words: a language, or `plain`."""
    by_words: dict[str, list[str]] = {}
    for index, corpus in enumerate(prepared.corpora):
        words = {"english": "en", "languages": corpus.language, "plain": "plain"}[settings.words]
        files = sorted((prepared.folder / f"{index:02d}").glob("*.jsonl"))
        by_words.setdefault(words, []).extend(str(p.relative_to(prepared.folder)) for p in files)
    return [
        {"words": words, "files": files, "folder": str(work / words)}
        for words, files in by_words.items()
    ]
