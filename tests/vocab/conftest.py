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
{vocab}
[encode]
valid_fraction = {valid_fraction}
shard_tokens = 1024
[pretrain]
size = "small"
sequence_length = 16
num_steps = 1
warmup_steps = 0
"""


@pytest.fixture(scope="session")
def documents() -> list[tuple[str, str]]:
    """(language, text) pairs."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines]


def write_pairs(folder: Path, documents, num_files=2, row_group_bytes=1000) -> list[Path]:
    """(language, text) pairs as documents files; their paths."""
    rows = [{"language": language, "text": text} for language, text in documents]
    return [
        path
        for number in range(num_files)
        for path in write_documents(
            folder, rows[number::num_files], number, row_group_bytes=row_group_bytes
        )
    ]


@pytest.fixture(scope="session")
def make_run_in():
    """A config in a folder whose `clean/` holds the given documents."""

    def make(folder: Path, documents, valid_fraction=0.2, vocab="") -> RunConfig:
        stage = Stage("clean", folder / "clean", {})
        run_stage(stage, lambda partial: write_pairs(partial, documents) and {})
        path = folder / "test.toml"
        text = CONFIG.format(output_dir=folder, valid_fraction=valid_fraction, vocab=vocab)
        path.write_text(text, encoding="utf-8")
        return load_config(path)

    return make


@pytest.fixture
def make_run(tmp_path, make_run_in):
    """`make_run_in` in a folder of the test's own."""

    def make(documents, **options) -> RunConfig:
        return make_run_in(tmp_path / "run", documents, **options)

    return make


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


def batches_of(words: Mapping[str, int], language: str = "") -> Batches:
    """Words in memory as batches."""

    def read() -> Iterator[WordBatch]:
        listed = sorted(words)
        for start in range(0, len(listed), BATCH_WORDS):
            part = listed[start : start + BATCH_WORDS]
            counts = np.array([words[word] for word in part], np.int64)
            yield WordBatch(part, counts, [language] * len(part))

    return read
