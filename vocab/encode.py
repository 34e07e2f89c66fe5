"""Documents to token shards, in Beam.

An element is a row group of a documents file. Its ids are written beside the shards, one pair of
arrays for each split and language, and joined in the order of the text, whatever the runner.
"""

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import xxhash

from electrify.artifacts import run_stage
from electrify.config import RunConfig
from electrify.progress import Progress, log
from electrify.stages import encode_stage, output_dir
from pipeline.runner import make_pipeline, run_pipeline
from vocab.row_groups import RowGroup, list_row_groups, read_texts
from vocab.shards import SPLITS, ShardEntry, ShardWriter, token_dtype, write_index
from vocab.tokenizer import SEP, load_tokenizer, special_token_ids, tokenizer_sha256

SECONDS_PER_MEGABYTE = 0.3  # of text, one core
_SPLIT_SEED = 0x5E1EC7  # fixed, so that a text is in the same split in every run
_PARTS = "parts"


def encode(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    """Write the run's `shards/` from its `clean/` and `vocab/`."""

    def work(folder: Path) -> Mapping[str, Any]:
        return write_token_shards(config, beam_options, folder)

    run_stage(encode_stage(config), work, overwrite)


def write_token_shards(
    config: RunConfig, beam_options: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Encode every document into `folder`; the number of documents and tokens by split, language.

    `ValueError` if no document falls into one of the splits.
    """
    documents = sorted((output_dir(config) / "clean").glob("documents-*.parquet"))
    vocab = output_dir(config) / "vocab"
    parts = folder / _PARTS
    parts.mkdir()
    groups, num_bytes = list_row_groups(documents)
    pipeline = make_pipeline(config.clean.runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
    (
        pipeline
        | "row groups" >> beam.Create(list(enumerate(groups)))
        | "spread" >> beam.Reshuffle()
        | "encode" >> beam.ParDo(EncodeRowGroup(vocab, parts, config.encode.valid_fraction))
    )
    run_pipeline(pipeline)
    tokenizer = load_tokenizer(vocab)
    size = tokenizer.get_vocab_size()
    entries = _join(parts, folder, size, config.encode.shard_tokens)
    shutil.rmtree(parts)
    _check_splits(entries, config.encode.valid_fraction)
    special = special_token_ids(tokenizer)
    index = write_index(folder, entries, size, tokenizer_sha256(vocab), special)
    return _counts(index)


def split_of(text: str, valid_fraction: float) -> str:
    """`train` or `valid`, by a hash of the text: equal texts are never on both sides."""
    share = xxhash.xxh3_64_intdigest(text.encode(), seed=_SPLIT_SEED) / 2**64
    return "valid" if share < valid_fraction else "train"


class EncodeRowGroup(beam.DoFn):
    """Writes `<number>/<split>/<language>/{tokens,offsets}.npy` for one row group."""

    def __init__(self, vocab: Path, parts: Path, valid_fraction: float) -> None:
        self._vocab, self._parts, self._valid_fraction = str(vocab), str(parts), valid_fraction

    def process(self, element: tuple[int, RowGroup]) -> None:
        """Encode the row group that has this number among all."""
        number, group = element
        tokenizer = _corpus_tokenizer(self._vocab)
        dtype, sep = token_dtype(tokenizer.get_vocab_size()), tokenizer.token_to_id(SEP)
        ids: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
        for texts, languages in read_texts(group):
            encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            for text, language, encoding in zip(texts, languages, encoded, strict=True):
                key = split_of(text, self._valid_fraction), language
                ids[key].append(np.array([*encoding.ids, sep], dtype))
        for (split, language), listed in ids.items():
            folder = Path(self._parts) / f"{number:06d}" / split / language
            folder.mkdir(parents=True, exist_ok=True)
            lengths = np.fromiter((len(document) for document in listed), np.int64, len(listed))
            _save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
            _save(folder / "tokens.npy", np.concatenate(listed))


def _save(path: Path, array: Any) -> None:
    temporary = path.with_suffix(".tmp.npy")  # a bundle may run twice: the last rename wins
    np.save(temporary, array)
    temporary.replace(path)


@lru_cache(maxsize=1)
def _corpus_tokenizer(folder: str) -> Any:
    # once a process; a literal "[MASK]" in a document is text, not the special token
    tokenizer = load_tokenizer(Path(folder))
    tokenizer.encode_special_tokens = True
    return tokenizer


def _join(
    parts: Path, folder: Path, vocab_size: int, shard_tokens: int
) -> dict[tuple[str, str], list[ShardEntry]]:
    writers: dict[tuple[str, str], ShardWriter] = {}
    groups = sorted(parts.iterdir())
    with Progress("token shards", len(groups), "row groups") as progress:
        for number in groups:
            for part in sorted(number.glob("*/*")):
                key = part.parent.name, part.name
                if key not in writers:
                    writers[key] = ShardWriter(folder / key[0] / key[1], vocab_size, shard_tokens)
                writers[key].add(np.load(part / "tokens.npy"), np.load(part / "offsets.npy"))
            progress.update()
    return {key: writer.close() for key, writer in writers.items()}


def _check_splits(
    entries: Mapping[tuple[str, str], Sequence[ShardEntry]], valid_fraction: float
) -> None:
    documents = {
        split: sum(
            e.num_documents for (of, _), listed in entries.items() if of == split for e in listed
        )
        for split in SPLITS
    }
    for split, count in documents.items():
        if not count:
            raise ValueError(
                f"no document fell into the {split} split: encode.valid_fraction = "
                f"{valid_fraction} of {sum(documents.values())} documents; give more documents "
                f"or a {'larger' if split == 'valid' else 'smaller'} encode.valid_fraction"
            )


def _counts(index: Mapping[str, Any]) -> dict[str, Any]:
    counts = {}
    for split, languages in index["splits"].items():
        counts[split] = {
            language: {key: entry[key] for key in ("num_documents", "num_tokens")}
            for language, entry in languages.items()
        }
        tokens = sum(entry["num_tokens"] for entry in counts[split].values())
        total = sum(entry["num_documents"] for entry in counts[split].values())
        log(f"{split}: {total:,} documents, {tokens:,} tokens")
    return counts
