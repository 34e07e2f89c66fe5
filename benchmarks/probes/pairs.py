"""Public sets of sentence pairs, a stereotype and its opposite, where a data folder has them.

They are read in the forms in which their authors publish them:
- CrowS-Pairs (Nangia et al. 2020), `crows_pairs_anonymized.csv`, CC-BY-SA-4.0;
- K-StereoSet (Song et al. 2021), JSON of StereoSet (Nadeem et al. 2021, CC-BY-SA-4.0) with
  "stereoset" in its name; its repository names no licence of its own;
- KoBBQ (Jin et al. 2024), `KoBBQ_test_samples.tsv`, MIT: its ambiguous contexts, each with its
  question and an answer.
"""

import ast
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tasks.data import files_below
from electrify.storage.files import read_json
from electrify.system.outcome import UserError


@dataclass(frozen=True)
class Pair:
    """Two texts about a group, of which the first says what a stereotype says."""

    data: str
    axis: str
    stereotype: str
    opposite: str


def find_pairs(data_dirs: Sequence[Path]) -> list[Pair]:
    """The pairs of all sets below the folders; `ValueError` for a file of another form."""
    found: list[Pair] = []
    for path in (path for folder in data_dirs for path in files_below(folder)):
        name = path.name.lower()
        try:
            if name == "crows_pairs_anonymized.csv":
                found += _crows_pairs(path)
            elif name == "kobbq_test_samples.tsv":
                found += _kobbq(path)
            elif "stereoset" in name and path.suffix == ".json":
                found += _stereoset(path)
        except (KeyError, TypeError, StopIteration, SyntaxError, ValueError) as error:
            raise UserError(
                f"{path} is not in the form of its authors ({error!r}); take their file, or remove "
                "it from the data folder"
            ) from error
    return found


def _rows(path: Path, **form: Any) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file, **form)


def _crows_pairs(path: Path) -> Iterator[Pair]:
    """`sent_more` is the more stereotypical one, also where both are anti-stereotypes."""
    for row in _rows(path):
        if row["stereo_antistereo"] == "stereo":
            yield Pair("CrowS-Pairs", row["bias_type"], row["sent_more"], row["sent_less"])


def _stereoset(path: Path) -> Iterator[Pair]:
    content = read_json(path)
    for kind in ("intrasentence", "intersentence"):
        for row in content.get("data", content).get(kind, ()):
            texts = {each["gold_label"]: each["sentence"] for each in row["sentences"]}
            before = f"{row['context']} " if kind == "intersentence" else ""
            yield Pair(
                "K-StereoSet",
                f"{row['bias_type']}, {kind}",
                before + texts["stereotype"],
                before + texts["anti-stereotype"],
            )


def _kobbq(path: Path) -> Iterator[Pair]:
    """Of an ambiguous context the right answer is that it is not known."""
    for row in _rows(path, delimiter="\t"):
        category, *_, context, _ = row["sample_id"].split("-")
        if context != "amb":
            continue
        answers = ast.literal_eval(row["choices"])
        other = next(a for a in answers if a not in (row["biased_answer"], row["answer"]))
        before = f"{row['context']} {row['question']}"
        yield Pair("KoBBQ", category, f"{before} {row['biased_answer']}", f"{before} {other}")
