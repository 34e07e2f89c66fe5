"""Near-duplicate removal by datatrove, with or without its filters before it, run by the Python of
its own environment.

    python peer_script.py TASK.json

The task, which `benchmarks.throughput.corpus.peer` writes, names the folder of the documents. They
are deduplicated by datatrove's documented steps (examples/minhash_deduplication.py): signatures,
buckets, clusters, filter, each by the local executor; word 5-grams, 64-bit xxhash. The filters are
those of its examples/fineweb.py that need no model, but stop words, which are English. `kept/` and
`removed/` go beside the task. Imports nothing of this repository.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from datatrove.executor import LocalPipelineExecutor  # type: ignore[import-not-found]
from datatrove.pipeline.dedup import (  # type: ignore[import-not-found]
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig  # type: ignore[import-not-found]
from datatrove.pipeline.filters import (  # type: ignore[import-not-found]
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.pipeline.readers import JsonlReader  # type: ignore[import-not-found]
from datatrove.pipeline.writers.jsonl import JsonlWriter  # type: ignore[import-not-found]
from datatrove.utils.hashing import HashConfig  # type: ignore[import-not-found]
from datatrove.utils.word_tokenizers import (  # type: ignore[import-not-found]
    WhitespaceTokenizer,
)

N_GRAMS = 5
NUM_TASKS = 16


class PlainWords(WhitespaceTokenizer):  # type: ignore[misc]
    """Words as electrify has them where a script has spaces."""

    def word_tokenize(self, text: str) -> list[str]:
        """Runs of letters, digits and underscores."""
        return re.findall(r"\w+", text)


def deduplicate(task: dict[str, Any], output: Path) -> None:
    """Write `kept` and `removed` into a folder."""
    config = MinhashConfig(
        n_grams=N_GRAMS,
        num_buckets=task["num_bands"],
        hashes_per_bucket=task["rows_per_band"],
        hash_config=HashConfig(precision=64, hash_fc="xxhash"),
    )
    reader = JsonlReader(task["source"], glob_pattern="*/*.jsonl")
    signatures, buckets, clusters = (
        str(output / name) for name in ("signatures", "buckets", "clusters")
    )
    kept, removed = (
        JsonlWriter(str(output / name), compression=None) for name in ("kept", "removed")
    )

    def run(name: str, steps: list[object], num_tasks: int) -> None:
        LocalPipelineExecutor(
            pipeline=steps,
            tasks=num_tasks,
            workers=task["num_workers"],
            logging_dir=str(output / "logs" / name),
        ).run()

    words = PlainWords() if task["has_plain_words"] else "en"
    if task["has_filters"]:
        filters = [
            GopherRepetitionFilter(language=words),
            GopherQualityFilter(language=words, min_stop_words=None),
            C4QualityFilter(language=words, filter_no_terminal_punct=False),
            FineWebQualityFilter(language=words),
        ]
        passed = str(output / "passed")
        run("filters", [reader, *filters, JsonlWriter(passed, compression=None)], NUM_TASKS)
        reader = JsonlReader(passed)
    signature = MinhashDedupSignature(signatures, config, language=words)
    run("signatures", [reader, signature], NUM_TASKS)
    run("buckets", [MinhashDedupBuckets(signatures, buckets, config=config)], config.num_buckets)
    run("clusters", [MinhashDedupCluster(buckets, clusters, config, save_cluster_id=True)], 1)
    for number in range(NUM_TASKS):  # the filter fails or names no cluster where one is missing
        for ending in ("remove", "clusters"):
            (Path(clusters) / f"{number:06d}.{ending}").touch()
    keep = MinhashDedupFilter(clusters, exclusion_writer=removed, load_cluster_ids=True)
    run("filter", [reader, keep, kept], NUM_TASKS)


if __name__ == "__main__":  # workers import this file again
    path = Path(sys.argv[1])
    deduplicate(json.loads(path.read_text(encoding="utf-8")), path.parent)
