"""Near-duplicate removal by datatrove, run by the Python of its own environment.

    python peer_datatrove.py INPUT_FOLDER OUTPUT_FOLDER TASKS WORKERS

Its documented recipe (examples/minhash_deduplication.py): signatures, buckets, clusters, filter,
each by the local executor; 14 buckets of 8, word 5-grams, 64-bit xxhash, English tokenizer.
Imports nothing of this repository.
"""

import json
import sys
import time
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor  # type: ignore[import-not-found]
from datatrove.pipeline.dedup import (  # type: ignore[import-not-found]
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig  # type: ignore[import-not-found]
from datatrove.pipeline.readers import JsonlReader  # type: ignore[import-not-found]
from datatrove.pipeline.writers.jsonl import JsonlWriter  # type: ignore[import-not-found]
from datatrove.utils.hashing import HashConfig  # type: ignore[import-not-found]

NUM_BUCKETS, HASHES_PER_BUCKET, N_GRAMS = 14, 8, 5


def deduplicate(source: Path, output: Path, tasks: int, workers: int) -> dict[str, float]:
    """Write `kept` and `removed` into the output folder; wall seconds of the four stages."""
    config = MinhashConfig(
        n_grams=N_GRAMS,
        num_buckets=NUM_BUCKETS,
        hashes_per_bucket=HASHES_PER_BUCKET,
        hash_config=HashConfig(precision=64, hash_fc="xxhash"),
    )
    reader = JsonlReader(str(source), recursive=True, glob_pattern="**/*.jsonl")
    signatures, buckets, clusters = (
        str(output / name) for name in ("signatures", "buckets", "clusters")
    )
    kept, removed = (
        JsonlWriter(str(output / name), compression=None) for name in ("kept", "removed")
    )
    seconds: dict[str, float] = {}

    def run(name: str, steps: list[object], num_tasks: int) -> None:
        started = time.perf_counter()
        LocalPipelineExecutor(
            pipeline=steps,
            tasks=num_tasks,
            workers=workers,
            logging_dir=str(output / "logs" / name),
        ).run()
        seconds[name] = time.perf_counter() - started

    run("signatures", [reader, MinhashDedupSignature(signatures, config, language="eng")], tasks)
    run("buckets", [MinhashDedupBuckets(signatures, buckets, config=config)], NUM_BUCKETS)
    run("clusters", [MinhashDedupCluster(buckets, clusters, config, save_cluster_id=True)], 1)
    for task in range(tasks):  # the filter fails or names no cluster where one of them is missing
        for ending in ("remove", "clusters"):
            (Path(clusters) / f"{task:06d}.{ending}").touch()
    keep = MinhashDedupFilter(clusters, exclusion_writer=removed, load_cluster_ids=True)
    run("filter", [reader, keep, kept], tasks)
    return seconds


if __name__ == "__main__":  # workers import this file again
    folder = Path(sys.argv[2])
    took = deduplicate(Path(sys.argv[1]), folder, int(sys.argv[3]), int(sys.argv[4]))
    (folder / "seconds.json").write_text(json.dumps(took), encoding="utf-8")
