"""Texts in Korean and English letters that no two draws share."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

from pipeline.decontaminate.index import write_index
from pipeline.decontaminate.match import BenchmarkIndex, Decontaminated

SYLLABLES = "가나다라마바사아자차카타파하고노도로모보소오조초코토포호기니디리미비시이지치키티피히"
WORDS = [
    *("harbour", "lantern", "copper", "meadow", "whisper", "granite", "velvet", "thunder"),
    *("orchard", "compass", "ribbon", "saddle", "pepper", "canvas", "marble", "walnut", "feather"),
    *("anchor", "candle", "mirror", "basket", "hollow", "summer", "winter"),
]


def korean(rng: Random, num_words: int) -> str:
    return " ".join("".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(num_words))


def english(rng: Random, num_words: int) -> str:
    return " ".join(rng.choices(WORDS, k=num_words))


def index_of(folder: Path, items: Iterable[tuple[str, str]]) -> BenchmarkIndex:
    """The index of (task, text) pairs; `folder` gets the files."""
    folder.mkdir(exist_ok=True)
    for task, text in items:
        with (folder / f"{task}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"task": task, "split": "dev", "text": text}) + "\n")
    write_index(folder, folder / "index")
    return BenchmarkIndex.load(folder / "index")


def decontaminate(index: BenchmarkIndex, text: str) -> Decontaminated:
    """What is left of one text."""
    return index.decontaminate([text])[0]
