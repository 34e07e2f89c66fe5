"""A small corpus as the stage before leaves it; words from what is in memory."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from electrify.config.load import load_config
from electrify.config.run import RunConfig
from electrify.config.vocab import VocabConfig
from electrify.stage.folder import Stage
from electrify.stage.run import run_stage
from tests.pipeline.builders import write_documents
from vocab.pretokenize import CUT, morphemes_of
from vocab.word_counts import WordCounter
from vocab.words import BATCH_WORDS, Batches, WordBatch

SENTENCES = Path(__file__).parents[1] / "fixtures" / "sentences.tsv"
CONFIG = """
name = "test"
output_dir = "{output_dir}"
[clean]
sources = [{{ kind = "text", language = "ko", path = "unused.txt" }}]
[vocab]
size = 600
min_frequency = 1
[encode]
valid_fraction = 0.2
shard_tokens = 1024
"""


@pytest.fixture(scope="session")
def documents() -> list[tuple[str, str]]:
    """(language, text) pairs."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines]


def write_pairs(folder: Path, documents, num_files=2, row_group_bytes=1000) -> list[Path]:
    """(language, text) pairs as documents files; their paths."""
    rows = [{"language": language, "text": text} for language, text in documents]
    paths = []
    for number in range(num_files):
        of_file = rows[number::num_files]
        paths += write_documents(folder, of_file, number, row_group_bytes=row_group_bytes)
    return paths


def make_run_in(folder: Path, documents) -> RunConfig:
    """A config in a folder whose `clean/` holds the given documents."""
    stage = Stage("clean", folder / "clean", {})
    run_stage(stage, lambda partial: write_pairs(partial, documents) and {})
    path = folder / "test.toml"
    path.write_text(CONFIG.format(output_dir=folder), encoding="utf-8")
    return load_config(path)


def vocab_options(size: int, min_frequency: int = 1, **options) -> VocabConfig:
    """Not checked, so that a vocabulary may be small."""
    defaults = {"surplus": 0.0, "limit_alphabet": 6000} | options
    return VocabConfig.model_construct(size=size, min_frequency=min_frequency, **defaults)


def count_words(texts: Iterable[str], lowercase: bool) -> Counter[str]:
    """Words of the texts with their counts, without those too long for the tokenizer."""
    counter = WordCounter(lowercase)
    counter.add(pa.array(texts, pa.string()))
    found = counter.words()
    return Counter(dict(zip(found["word"].to_pylist(), found["count"].to_pylist(), strict=True)))


def marked(words: Mapping[str, int]) -> dict[str, int]:
    """The words, the Korean ones with CUT between their parts."""
    korean = [word for word in sorted(words) if re.search("[가-힣]", word)]
    parts = dict(zip(korean, morphemes_of(korean), strict=True))
    return {CUT.join(parts.get(word, [word])): words[word] for word in sorted(words)}


def batches_by_language(words: Mapping[str, Mapping[str, int]], size: int = BATCH_WORDS) -> Batches:
    """{language: {word: count}} as batches, all languages mixed in each."""
    rows = sorted((word, language, n) for language in words for word, n in words[language].items())

    def read() -> Iterator[WordBatch]:
        for start in range(0, len(rows), size):
            listed, languages, counts = zip(*rows[start : start + size], strict=True)
            yield WordBatch([*listed], np.array(counts, np.int64), [*languages])

    return read


def batches_of(words: Mapping[str, int]) -> Batches:
    return batches_by_language({"": words})
