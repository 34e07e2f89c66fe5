"""Documents to token shards, in Beam.

An element is a row group of a documents file. Its ids are written beside the shards, in a file with
a few arrays for each split and language. All are joined in the order of the text, whatever the
runner.
"""

import gc
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from electrify.config.run import RunConfig
from electrify.config.vocab import EncodeConfig
from electrify.stage.plan import encode_stage, output_dir
from electrify.stage.run import run_stage
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log
from pipeline.documents import RowGroup, document_paths, read_columns
from pipeline.work_folder import WorkFolder, work_folder, write_row_groups
from vocab.segment import SPECIAL_TOKENS
from vocab.shards.files import ShardEntry, ShardWriter, write_index
from vocab.shards.word_encoder import WordEncoder
from vocab.tokenizer import (
    TOKENIZER_FILE,
    UNK,
    load_tokenizer,
    plain_words_of,
    tokenizer_sha256,
)

SECONDS_PER_MEGABYTE = 0.2  # of text, one core
_SPLIT_SEED = 0x5E1EC7  # fixed, so that a text is in the same split in every run
_ARRAYS = ("tokens", "offsets", "counts")
_COUNTS = ("num_unknown_tokens", "num_documents_without_tokens")
Key = tuple[str, str]  # split, language
PartKey = tuple[str, str, int]  # and how many times its documents stand in the shards


def encode(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    """Write the run's `shards/` from its `clean/` and `vocab/`.

    `UserError` if no document falls into one of the splits.
    """
    options, stage = config.encode, encode_stage(config)

    def work(folder: Path) -> Mapping[str, Any]:
        documents = document_paths(output_dir(config) / "clean")
        vocab = output_dir(config) / "vocab"
        check_sources(options.repeats, documents)
        tokenizer = load_tokenizer(vocab)
        plain_words_of(tokenizer)  # one of other steps is refused here, not in a worker
        size = tokenizer.get_vocab_size()
        with work_folder("encode", config.beam.work_dir, folder, stage.plan) as shared:
            shared.write(TOKENIZER_FILE, (vocab / TOKENIZER_FILE).read_bytes())
            names = write_row_groups(
                partial(write_ids, options=options),
                documents,
                shared,
                config.beam,
                beam_options,
                "encode: documents",
                SECONDS_PER_MEGABYTE,
            )
            entries, counts = join_parts(shared, names, folder, size, options)
        special = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
        index = write_index(folder, entries, size, tokenizer_sha256(vocab), special, counts)
        return _summary(index, options.valid_fraction)

    run_stage(stage, work, overwrite)


def split_of(text: str, valid_fraction: float) -> str:
    """`train` or `valid`, by a hash of the text: equal texts are never on both sides."""
    fraction = xxhash.xxh3_64_intdigest(text.encode(), seed=_SPLIT_SEED) / 2**64
    return "valid" if fraction < valid_fraction else "train"


def check_sources(repeats: Mapping[str, int], documents: Sequence[Path]) -> None:
    """`UserError` if no document has one of the sources that `encode.repeats` names."""
    if not repeats:
        return
    sources: set[str] = set()
    for path in documents:
        sources.update(pc.unique(pq.read_table(path, columns=["source"]).column(0)).to_pylist())
    if unknown := sorted(set(repeats) - sources):
        raise UserError(
            f"encode.repeats: no document has the source {unknown[0]!r}; the sources are "
            f"{', '.join(sorted(sources)[:20])}"
        )


def write_ids(group: RowGroup, path: Path, work: WorkFolder, options: EncodeConfig) -> None:
    """Write the ids of one row group into a file: its `EncodedDocuments.arrays` by key."""
    encoder = _encoder(work)
    encoded: defaultdict[PartKey, EncodedDocuments] = defaultdict(EncodedDocuments)
    columns = ("text", "language", "source")
    # millions of short lists, no cycle among them: looking for one takes a tenth of the time
    gc.disable()
    try:
        for batch in read_columns(group, columns):
            texts, languages, sources = (batch.column(name).to_pylist() for name in columns)
            rows = zip(texts, languages, sources, encoder.encode(texts), strict=True)
            for text, language, source, ids in rows:
                split = split_of(text, options.valid_fraction)
                times = options.repeats.get(source, 1) if split == "train" else 1
                encoded[split, language, times].add(ids, encoder.sep)
    finally:
        gc.enable()
    arrays: dict[str, Any] = {
        f"{split}/{language}/{times}/{name}": array
        for (split, language, times), documents in encoded.items()
        for name, array in documents.arrays(encoder.dtype, encoder.unk).items()
    }
    with path.open("wb") as file:
        np.savez(file, **arrays)


class EncodedDocuments:
    """The ids of documents as bytes."""

    def __init__(self) -> None:
        self._ids: list[bytes] = []
        self._num_without_tokens = 0

    def add(self, ids: bytes, sep: bytes) -> None:
        """Append a document; one without any token (of control characters only) is counted."""
        if ids:
            self._ids.append(ids + sep)
        else:
            self._num_without_tokens += 1

    def arrays(self, dtype: np.dtype[Any], unk: int) -> dict[str, NDArray[Any]]:
        """`_ARRAYS` by name: what `ShardWriter.add` takes, and the numbers of `_COUNTS`."""
        tokens = np.frombuffer(bytearray().join(self._ids), dtype)
        lengths = np.fromiter(map(len, self._ids), np.int64, len(self._ids)) // dtype.itemsize
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        counts = np.array([np.count_nonzero(tokens == unk), self._num_without_tokens], np.int64)
        return dict(zip(_ARRAYS, (tokens, offsets, counts), strict=True))


@lru_cache(maxsize=1)
def _encoder(work: WorkFolder) -> WordEncoder:
    """Once a process."""
    with work.fetch(TOKENIZER_FILE) as path:
        return WordEncoder(load_tokenizer(path.parent))


def join_parts(
    work: WorkFolder,
    names: Sequence[str],
    folder: Path,
    vocab_size: int,
    options: EncodeConfig,
) -> tuple[dict[Key, list[ShardEntry]], dict[Key, Counter[str]]]:
    """Shards of each split and language from what the row groups left, and the sums of counts.

    Documents that stand there several times are written in as many of the passes over the row
    groups, so that a copy is far from its original.
    """
    writers: dict[Key, ShardWriter] = {}
    counts: defaultdict[Key, Counter[str]] = defaultdict(Counter)
    num_passes = max(options.repeats.values(), default=1)
    passes = [(number, name) for number in range(1, num_passes + 1) for name in names]
    with Progress("token shards", len(passes), "row groups") as progress:
        for number, name in passes:
            with work.fetch(name) as path, np.load(path) as arrays:
                for part in sorted({name.rpartition("/")[0] for name in arrays}):
                    split, language, times = part.split("/")
                    if int(times) < number:
                        continue
                    key = split, language
                    if key not in writers:
                        target = folder / split / language
                        writers[key] = ShardWriter(target, vocab_size, options.shard_tokens)
                    *written, added = (arrays[f"{part}/{name}"] for name in _ARRAYS)
                    writers[key].add(*written)
                    counts[key].update(dict(zip(_COUNTS, added.tolist(), strict=True)))
            progress.update()
    return {key: writer.close() for key, writer in writers.items()}, counts


def _summary(index: Mapping[str, Any], valid_fraction: float) -> dict[str, Any]:
    """The counts of each split and language; `UserError` for a split without a document."""
    counts = {
        split: {
            language: {key: value for key, value in entry.items() if key != "shards"}
            for language, entry in languages.items()
        }
        for split, languages in index["splits"].items()
    }
    for split, languages in counts.items():
        of = Counter[str]()
        for entry in languages.values():
            of.update(entry)
        if not of["num_documents"]:
            num = sum(one["num_documents"] for all_of in counts.values() for one in all_of.values())
            raise UserError(
                f"no document fell into the {split} split: encode.valid_fraction = "
                f"{valid_fraction} of {num} documents; give more documents or a "
                f"{'larger' if split == 'valid' else 'smaller'} encode.valid_fraction"
            )
        log(
            f"{split}: {of['num_documents']:,} documents, {of['num_tokens']:,} tokens, of them "
            f"{of['num_unknown_tokens']:,} {UNK}"
        )
        if dropped := of["num_documents_without_tokens"]:
            log(f"{split}: {dropped:,} documents without any token were dropped")
    return counts
