"""Processor seconds of the pure functions alone, without Beam, shuffles and Parquet.

    python -m benchmarks.throughput.direct CONFIG.toml SECONDS.json

Writes one JSON object: seconds for reading the sources of the config, for its text
rules, and for the MinHash signatures of the texts that are left.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from electrify.config.clean import CleanConfig, Source
from electrify.config.load import load_config
from pipeline.dedup.minhash import BATCH_CHARACTERS, band_keys, shingle
from pipeline.rules.order import document_rules
from pipeline.sources.files import expand_sources
from pipeline.sources.input_file import InputFile
from pipeline.sources.raw import Fault
from pipeline.sources.readers import read_file


def measure_functions(config: CleanConfig) -> dict[str, float]:
    """Seconds by function; one file of texts is held at a time."""
    seconds = {"read": 0.0, "rules": 0.0, "signatures": 0.0}
    near = config.near_dedup
    for file in expand_sources(config.sources):
        source = config.sources[file.source_index]
        rules = document_rules(source, config)
        started = time.process_time()
        texts = list(_texts(file, source, config))
        read = time.process_time()
        cleaned = [rules.clean(text) for text in texts]
        ruled = time.process_time()
        left = [outcome.text for outcome in cleaned if outcome.drop is None]
        for batch in _batches(left):
            band_keys(shingle(batch), near.num_bands, near.rows_per_band)
        seconds["read"] += read - started
        seconds["rules"] += ruled - read
        seconds["signatures"] += time.process_time() - ruled
    return seconds


def _texts(file: InputFile, source: Source, config: CleanConfig) -> Iterator[str]:
    for item in read_file(file, source, config.max_line_bytes):
        if not isinstance(item, Fault):
            yield item.text


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts as the second pass hashes them, many at a time."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


if __name__ == "__main__":
    found = measure_functions(load_config(sys.argv[1]).clean)
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")
