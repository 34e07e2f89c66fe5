"""Near-duplicate removal by datatrove, run by the Python of its own environment.

    python datatrove_peer.py DOCUMENTS OUTPUT NUM_BANDS ROWS_PER_BAND NUM_WORKERS

Its documented steps (examples/minhash_deduplication.py) with word 5-grams and 64-bit xxhash:
`kept/` and `removed/` go into OUTPUT. Imports nothing of this repository.
"""

import re
import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers.jsonl import JsonlWriter
from datatrove.utils.hashing import HashConfig
from datatrove.utils.word_tokenizers import WhitespaceTokenizer

_NUM_TASKS = 16


class PlainWords(WhitespaceTokenizer):  # type: ignore[misc]
    """Words as electrify has them where a script has spaces."""

    def word_tokenize(self, text: str) -> list[str]:
        """Runs of letters, digits and underscores."""
        return re.findall(r"\w+", text)


def deduplicate(documents: str, output: str, bands: int, rows: int, num_workers: int) -> None:
    """Write `kept` and `removed` into the folder `output`."""
    hashes = HashConfig(precision=64, hash_fc="xxhash")
    config = MinhashConfig(n_grams=5, num_buckets=bands, hashes_per_bucket=rows, hash_config=hashes)
    reader = JsonlReader(documents, glob_pattern="*/*.jsonl")
    signatures, buckets, clusters, kept, removed = (
        f"{output}/{name}" for name in ("signatures", "buckets", "clusters", "kept", "removed")
    )

    def run(name: str, steps: list[object], tasks: int) -> None:
        logs = f"{output}/logs/{name}"
        LocalPipelineExecutor(steps, tasks, workers=num_workers, logging_dir=logs).run()

    signature = MinhashDedupSignature(signatures, config, language=PlainWords())
    run("signatures", [reader, signature], _NUM_TASKS)
    run("buckets", [MinhashDedupBuckets(signatures, buckets, config=config)], bands)
    run("clusters", [MinhashDedupCluster(buckets, clusters, config)], 1)
    for number in range(_NUM_TASKS):  # the filter fails where one is missing
        Path(clusters, f"{number:06d}.remove").touch()
    keep = MinhashDedupFilter(clusters, JsonlWriter(removed, compression=None))
    run("filter", [reader, keep, JsonlWriter(kept, compression=None)], _NUM_TASKS)


if __name__ == "__main__":  # workers import this file again
    source, folder, *numbers = sys.argv[1:]
    deduplicate(source, folder, *map(int, numbers))
