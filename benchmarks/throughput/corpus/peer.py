"""The peer: datatrove in an environment of its own, on the same documents, in two settings."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.throughput.corpus.corpora import read_lines
from benchmarks.throughput.cost import Cost, run_measured
from electrify.config.clean import NearDedupConfig
from electrify.system.progress import log

# datatrove hashes `str` with xxhash, which its version 4 refuses; its English tokenizer is spaCy's
_REQUIREMENTS = ("datatrove[processing,io]==0.10.1", "spacy==3.8.18", "xxhash<4")
NAME = "datatrove 0.10.1"
_OURS = NearDedupConfig()


@dataclass(frozen=True)
class PeerSettings:
    """How the peer is set, and what a comparison with it says."""

    name: str  # in the tables
    num_bands: int
    rows_per_band: int
    has_plain_words: bool  # else its English tokenizer cuts every language
    meaning: str
    has_filters: bool = False  # before near-duplicate removal


PEER_SETTINGS = (
    PeerSettings(
        f"{NAME}, its example",
        14,
        8,
        False,
        "14 bands of 8, word 5-grams, its English tokenizer for every language. What its "
        "documented recipe gives a user. Bands and words are other than those of electrify, so "
        "neither cost nor recall compares the programs alone.",
    ),
    PeerSettings(
        f"{NAME}, plain words",
        _OURS.num_bands,
        _OURS.rows_per_band,
        True,
        f"{_OURS.num_bands} bands of {_OURS.rows_per_band}, and runs of letters and digits as "
        "words, both as electrify has them where words stand between spaces. Cost compares the "
        "programs alone. electrify also checks the similarity of each pair; datatrove joins all "
        "that share a band.",
    ),
)
PEER_OF_WHOLE = PeerSettings(
    f"{NAME}, filters and plain words",
    _OURS.num_bands,
    _OURS.rows_per_band,
    True,
    "The filters of its FineWeb example that need no model (Gopher's, C4's, FineWeb's, without "
    "English stop words), then near-duplicate removal as above. Beside it stands electrify with "
    'profile = "web", whose quality rules are these; its other rules (language, markup, personal '
    "data, boilerplate, lines, exact copies, one form of characters) are on, too. Limits differ "
    "by language, so what is kept differs.",
    has_filters=True,
)


def install_peer(work: Path) -> Path:
    """The Python that has datatrove, made below `work` or reused from an earlier run.

    `ValueError` if it cannot be installed.
    """
    folder = work / "venv"
    python, done = folder / "bin" / "python", folder / "requirements.txt"
    wanted = "\n".join(_REQUIREMENTS)
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    log(f"installing {NAME} into {folder}")
    try:
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *_REQUIREMENTS],
            [str(python), "-c", "import datatrove.pipeline.dedup, spacy"],
        ):
            subprocess.run(command, check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise ValueError(f"{NAME} cannot be installed: {said[-1] if said else error}") from error
    done.write_text(wanted, encoding="utf-8")
    return python


def run_peer(
    python: Path, documents: Path, settings: PeerSettings, work: Path, num_workers: int
) -> Cost:
    """Deduplicate all files of a folder, which leaves `kept/` and `removed/` in `work`.

    `ValueError` if the command fails.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    task = {
        "source": str(documents),
        "num_bands": settings.num_bands,
        "rows_per_band": settings.rows_per_band,
        "has_plain_words": settings.has_plain_words,
        "has_filters": settings.has_filters,
        "num_workers": num_workers,
    }
    path = work / "task.json"
    path.write_text(json.dumps(task), encoding="utf-8")
    script = Path(__file__).with_name("peer_script.py")
    return run_measured([str(python), str(script), str(path)], work / "log.txt")


def read_peer_removals(work: Path) -> dict[str, str]:
    """Removed id -> id kept, of the peer's rows, which carry the number of their cluster."""
    kept = {cluster: document_id for document_id, cluster in _rows(work / "kept")}
    return {document_id: kept[cluster] for document_id, cluster in _rows(work / "removed")}


def _rows(folder: Path) -> list[tuple[str, int]]:
    """Id and cluster of the documents that are in one."""
    rows = [row for path in sorted(folder.glob("*.jsonl")) for row in read_lines(path)]
    clusters = [(row["id"], row["metadata"].get("minhash_cluster_id", -1)) for row in rows]
    return [(document_id, cluster) for document_id, cluster in clusters if cluster >= 0]
