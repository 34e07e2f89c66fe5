"""Documents to token shards, in Beam.

An element is a row group of a documents file. Its ids are written beside the shards, in a file with
a few arrays for each split and language. All are joined in the order of the text, whatever the
runner.
"""

import gc
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import apache_beam as beam
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
from pipeline.rules.forms import FORM
from pipeline.runner import make_pipeline, run_pipeline, watch
from pipeline.work_folder import WorkFolder, check_written, share_documents, work_folder
from vocab.sentences import punctuated_spans, sentence_spans
from vocab.shards.files import SPLITS, ShardEntry, ShardWriter, TokenShards, write_index
from vocab.shards.reader import SequenceReader
from vocab.shards.word_encoder import WordEncoder
from vocab.tokenizer import (
    TOKENIZER_FILE,
    UNK,
    load_tokenizer,
    plain_words_of,
    special_token_ids,
    tokenizer_sha256,
)

SECONDS_PER_MEGABYTE = 0.2  # of text, one core
_SPLIT_SEED = 0x5E1EC7  # fixed, so that a text is in the same split in every run
_ARRAYS = ("tokens", "offsets", "sentences", "counts")
_COUNTS = ("num_unknown_tokens", "num_documents_without_tokens")
Key = tuple[str, str]  # split, language
PartKey = tuple[str, str, int]  # and how many times its documents stand in the shards


def encode(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    """Write the run's `shards/` from its `clean/` and `vocab/`."""

    def work(folder: Path) -> Mapping[str, Any]:
        return write_token_shards(config, beam_options, folder)

    run_stage(encode_stage(config), work, overwrite)


def write_token_shards(
    config: RunConfig, beam_options: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Encode every document into `folder`; the number of documents and tokens by split, language.

    `ValueError` if no document falls into one of the splits, or if the ids of a row group are
    missing where this process reads them.
    """
    documents = document_paths(output_dir(config) / "clean")
    vocab = output_dir(config) / "vocab"
    check_repeats(config.encode.repeats, documents)
    tokenizer = load_tokenizer(vocab)
    plain_words_of(tokenizer)  # one of other steps is refused here, not in a worker
    size = tokenizer.get_vocab_size()
    num_passes = max(config.encode.repeats.values(), default=1)
    plan = encode_stage(config).plan
    with work_folder("encode", config.beam.work_dir, folder, plan) as work:
        groups = share_documents(work, config.beam.work_dir, documents)
        work.write(TOKENIZER_FILE, (vocab / TOKENIZER_FILE).read_bytes())
        num_bytes = sum(group.num_bytes for group in groups)
        pipeline = make_pipeline(config.beam.runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
        (
            pipeline
            | "row groups" >> beam.Create(list(enumerate(groups)))
            | "spread" >> beam.Reshuffle()
            | "encode" >> beam.ParDo(EncodeRowGroup(work, config.encode))
        )
        sizes = {_part_name(n): group.num_bytes / 1e6 for n, group in enumerate(groups)}
        with watch([("encode: documents", sizes)], "MB", work.names, work.poll_seconds):
            run_pipeline(pipeline)
        entries, counts = join_parts(
            work, len(groups), folder, size, config.encode.shard_tokens, num_passes
        )
    _check_splits(entries, config.encode.valid_fraction)
    special = special_token_ids(tokenizer)
    index = write_index(folder, entries, size, tokenizer_sha256(vocab), special, counts)
    _log_packing(config, folder)
    return _counts(index)


def split_of(text: str, valid_fraction: float) -> str:
    """`train` or `valid`, by a hash of the text: equal texts are never on both sides."""
    share = xxhash.xxh3_64_intdigest(text.encode(), seed=_SPLIT_SEED) / 2**64
    return "valid" if share < valid_fraction else "train"


def check_repeats(repeats: Mapping[str, int], documents: Sequence[Path]) -> None:
    """`ValueError` if no document has one of the sources whose documents shall be repeated."""
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


class EncodeRowGroup(beam.DoFn):
    """Writes the ids of one row group into a file: its `EncodedDocuments.arrays` by key."""

    def __init__(self, work: WorkFolder, options: EncodeConfig) -> None:
        self._work, self._options = work, options

    def process(self, element: tuple[int, RowGroup]) -> None:
        number, group = element
        if self._work.exists(_part_name(number)):  # by an earlier attempt
            return
        encoder = _encoder(self._work)
        with _paused_collector():
            found = self._encode(group, encoder)
        arrays: dict[str, Any] = {
            f"{split}/{language}/{times}/{name}": array
            for (split, language, times), documents in found.items()
            for name, array in documents.arrays(encoder.dtype, encoder.unk).items()
        }
        with self._work.new_file(_part_name(number)) as path, path.open("wb") as file:
            np.savez(file, **arrays)

    def _encode(self, group: RowGroup, encoder: WordEncoder) -> dict[PartKey, "EncodedDocuments"]:
        options = self._options
        found: defaultdict[PartKey, EncodedDocuments] = defaultdict(EncodedDocuments)
        columns = ("text", "language", "source")
        for batch in read_columns(group, columns):
            texts, languages, sources = (batch.column(name).to_pylist() for name in columns)
            cut = [
                cut_sentences(text, language, options.sentences)
                for text, language in zip(texts, languages, strict=True)
            ]
            ids = iter(encoder.encode(list(chain.from_iterable(cut))))
            rows = zip(texts, languages, sources, cut, strict=True)
            for text, language, source, sentences in rows:
                split = split_of(text, options.valid_fraction)
                times = options.repeats.get(source, 1) if split == "train" else 1
                key = split, language, times
                found[key].add([next(ids) for _ in sentences], encoder.sep)
        return found


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Millions of short lists, no cycle among them: looking for one takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class EncodedDocuments:
    """The ids of documents as bytes, sentence by sentence."""

    def __init__(self) -> None:
        self._ids: list[bytes] = []
        self._documents = [0]  # how many sentences are before each document, and in all
        self._num_without_tokens = 0

    def add(self, sentences: Sequence[bytes], sep: bytes) -> None:
        """Append a document; one without any token (of control characters only) is counted."""
        kept = [sentence for sentence in sentences if sentence]
        if not kept:
            self._num_without_tokens += 1
            return
        self._ids += kept
        self._ids[-1] += sep
        self._documents.append(len(self._ids))

    def arrays(self, dtype: np.dtype[Any], unk: int) -> dict[str, NDArray[Any]]:
        """`_ARRAYS` by name: what `ShardWriter.add` takes, and the numbers of `_COUNTS`."""
        tokens = np.frombuffer(bytearray().join(self._ids), dtype)
        lengths = np.fromiter(map(len, self._ids), np.int64, len(self._ids)) // dtype.itemsize
        sentences = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        offsets = sentences[self._documents]
        counts = np.array([np.count_nonzero(tokens == unk), self._num_without_tokens], np.int64)
        return dict(zip(_ARRAYS, (tokens, offsets, sentences, counts), strict=True))


def _part_name(number: int) -> str:
    return f"{number:06d}.npz"


@lru_cache(maxsize=1)
def _encoder(work: WorkFolder) -> WordEncoder:
    """Once a process."""
    with work.fetch(TOKENIZER_FILE) as path:
        return WordEncoder(load_tokenizer(path.parent))


def join_parts(
    work: WorkFolder,
    num_groups: int,
    folder: Path,
    vocab_size: int,
    shard_tokens: int,
    num_passes: int = 1,
) -> tuple[dict[Key, list[ShardEntry]], dict[Key, Counter[str]]]:
    """Shards of each split and language from what the row groups left, and the sums of counts.

    Documents that stand there several times are written in as many of the passes over the row
    groups, so that a copy is far from its original. `ValueError` if one of the row groups has left
    nothing.
    """
    names = [_part_name(number) for number in range(num_groups)]
    check_written(work, names, "ids of row groups")
    writers: dict[Key, ShardWriter] = {}
    counts: defaultdict[Key, Counter[str]] = defaultdict(Counter)
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
                        writers[key] = ShardWriter(target, vocab_size, shard_tokens)
                    *written, added = (arrays[f"{part}/{name}"] for name in _ARRAYS)
                    writers[key].add(*written)
                    counts[key].update(dict(zip(_COUNTS, added.tolist(), strict=True)))
            progress.update()
    return {key: writer.close() for key, writer in writers.items()}, counts


def _check_splits(entries: Mapping[Key, Sequence[ShardEntry]], valid_fraction: float) -> None:
    documents = {
        split: sum(
            e.num_documents for (of, _), listed in entries.items() if of == split for e in listed
        )
        for split in SPLITS
    }
    for split, count in documents.items():
        if not count:
            raise UserError(
                f"no document fell into the {split} split: encode.valid_fraction = "
                f"{valid_fraction} of {sum(documents.values())} documents; give more documents "
                f"or a {'larger' if split == 'valid' else 'smaller'} encode.valid_fraction"
            )


def _log_packing(config: RunConfig, folder: Path) -> None:
    """Say what the config's packing will make of the tokens."""
    options, shards = config.pretrain, TokenShards(folder)
    for split in SPLITS:
        try:
            reader = SequenceReader(shards, split, options, config.seed)
        except ValueError as error:  # the shards are whole: another length may do
            log(f"pretraining cannot use these shards with this config: {error}")
            continue
        for language, accounting in reader.accounting().items():
            log(f"{split} {language}, packing {options.packing!r}: {accounting.line()}")


def _counts(index: Mapping[str, Any]) -> dict[str, Any]:
    counts = {}
    for split, languages in index["splits"].items():
        counts[split] = {
            language: {key: value for key, value in entry.items() if key != "shards"}
            for language, entry in languages.items()
        }
        of = Counter[str]()
        for entry in counts[split].values():
            of.update(entry)
        log(
            f"{split}: {of['num_documents']:,} documents, {of['num_tokens']:,} tokens, of them "
            f"{of['num_unknown_tokens']:,} {UNK}"
        )
        if dropped := of["num_documents_without_tokens"]:
            log(f"{split}: {dropped:,} documents without any token were dropped")
    return counts


def cut_sentences(
    text: str, language: str, by: Literal["punctuation", "kiwi"] = "punctuation"
) -> list[str]:
    """The text in pieces that join to it again, one a sentence or line.

    A cut that would fall inside a word, or between characters that normalisation joins, is left
    out: the ids of the pieces, joined, are the ids of the text.
    """
    spans = sentence_spans(text, language) if by == "kiwi" else punctuated_spans(text)
    cuts = [start for start, _ in spans[1:] if is_between_words(text, start)]
    return [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]


def is_between_words(text: str, cut: int) -> bool:
    """Whether the tokenizer ends a word before character number `cut` for certain.

    After a space or line break; or after a punctuation mark, before a letter, digit, mark or space
    (not before a combining accent, which would change the mark, nor before a character whose form
    the mark decides).
    """
    before, after = text[cut - 1], text[cut]
    if before in " \n":
        return True
    if after in FORM and (before in FORM or before in ")」’”"):
        return False
    return unicodedata.category(before)[0] == "P" and unicodedata.category(after)[0] in "LNPSZ"
