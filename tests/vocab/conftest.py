"""A small corpus as the stage before leaves it; words from what is in memory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from electrify.config.load import load_config
from electrify.config.run import RunConfig
from electrify.config.vocab import VocabConfig
from electrify.stage.folder import Stage
from electrify.stage.run import run_stage
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


@pytest.fixture(scope="session")
def write_documents():
    """Writes (language, text) pairs as documents files; returns their paths."""

    def write(folder: Path, documents, num_files=2, row_group_size=5):
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for number in range(num_files):
            part = documents[number::num_files]
            columns = {
                "id": [f"{number}-{row}" for row in range(len(part))],
                "text": [text for _, text in part],
                "language": [language for language, _ in part],
                "source": ["test"] * len(part),
                "url": [None] * len(part),
                "licence": [None] * len(part),
            }
            paths.append(folder / f"documents-{number:05d}.parquet")
            table = pa.table({name: pa.array(v, pa.string()) for name, v in columns.items()})
            pq.write_table(table, paths[-1], row_group_size=row_group_size)
        return paths

    return write


@pytest.fixture(scope="session")
def make_run_in(write_documents):
    """A config in a folder whose `clean/` holds the given documents."""

    def make(folder: Path, documents, valid_fraction=0.2, vocab="") -> RunConfig:
        stage = Stage("clean", folder / "clean", {})
        run_stage(stage, lambda partial: write_documents(partial, documents) and {})
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


def count_words(texts: Iterable[str], lowercase: bool, split_digits: bool = False) -> Counter[str]:
    """Words of the texts with their counts, without those too long for the tokenizer."""
    counter = WordCounter(lowercase, split_digits)
    counter.add(pa.array(texts, pa.string()))
    found = counter.words()
    return Counter(dict(zip(found["word"].to_pylist(), found["count"].to_pylist(), strict=True)))


def marked(words: Mapping[str, int], cuts: str = "all") -> dict[str, int]:
    """The words with CUT between their parts."""
    parts = morphemes_of(sorted(words), cuts)
    return {CUT.join(of): words[word] for word, of in zip(sorted(words), parts, strict=True)}


def batches_of(words: Mapping[str, int], language: str = "") -> Batches:
    """Words in memory as batches."""

    def read() -> Iterator[WordBatch]:
        listed = sorted(words)
        for start in range(0, len(listed), BATCH_WORDS):
            part = listed[start : start + BATCH_WORDS]
            counts = np.array([words[word] for word in part], np.int64)
            yield WordBatch(part, counts, [language] * len(part))

    return read
