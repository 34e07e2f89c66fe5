"""Counts of words per language, in Beam.

An element is a row group of a documents file; texts never leave it. Its distinct words go with
their counts to shards, by a hash of the word, and a shard writes its sums into a file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from electrify.config.run import BeamConfig
from electrify.config.vocab import VocabConfig
from electrify.system.machine import num_cpus
from pipeline.documents import RowGroup, read_columns
from pipeline.runner import is_in_process, make_pipeline, run_pipeline, watch
from pipeline.work_folder import (
    Slice,
    WorkFolder,
    check_worker,
    for_shards,
    read_slice,
    share_documents,
    work_folder,
)
from vocab.pretokenize import (
    CUT,
    MAX_WORD_CHARACTERS,
    PlainWords,
    morphemes_of,
    normalizer,
    pre_tokenizer,
)
from vocab.words import COUNT_SCHEMA

SECONDS_PER_MEGABYTE = 0.04  # of text, one core
MAX_STRINGS = 200_000  # remembered while counting: some 20 MB, of which most come again
NUM_SHARDS = 64  # files of counts, a word in one by its hash
_BATCH_BYTES = 1_000_000  # of text, read at once
_NUMBERS = np.random.default_rng(0).integers(2**32, size=256, dtype=np.uint32)
COUNTED = pa.schema([("word", pa.string()), ("count", pa.int64())])


def write_word_counts(
    documents: Sequence[Path],
    output: Path,
    options: VocabConfig,
    plan: Mapping[str, Any],
    beam_config: BeamConfig,
    beam_options: Sequence[str] = (),
) -> None:
    """Count the words of documents files into one parquet: language, word, its parts, count.

    Each distinct word is cut into its parts once, by the worker that sums its counts. The bytes do
    not depend on the runner or on the order in which row groups are read. An attempt that was
    stopped is resumed if the stage's `plan` is the same.
    """
    with work_folder("train-vocab", beam_config.work_dir, output.parent, plan) as work:
        groups = share_documents(work, beam_config.work_dir, documents)
        num_bytes = sum(group.num_bytes for group in groups)
        pipeline = make_pipeline(beam_config.runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
        _build(pipeline, groups, work, options)
        names = [_shard_name(shard) for shard in range(NUM_SHARDS)]
        sizes = {f"{_counted_name(n)}.json": g.num_bytes / 1e6 for n, g in enumerate(groups)}
        shards, look = dict.fromkeys(names, 1.0), (work.names, work.poll_seconds)
        with (
            watch("train-vocab: counting words", sizes, *look),
            watch("train-vocab: cutting words into morphemes", shards, *look, unit="shards"),
        ):
            run_pipeline(pipeline)
        with pq.ParquetWriter(output, COUNT_SCHEMA, compression="zstd") as writer:
            for name in names:  # one at a time: never all words in memory
                with work.fetch(name) as path:
                    if len(table := pq.read_table(path)):
                        writer.write_table(table)


def _build(
    pipeline: beam.Pipeline, groups: Sequence[RowGroup], work: WorkFolder, options: VocabConfig
) -> None:
    counted = (
        pipeline
        | "row groups" >> beam.Create(list(enumerate(groups)))
        | "spread" >> beam.Reshuffle()
        | "count" >> beam.FlatMap(_count, work, options)
    )
    # one process has all cores for morphemes; of several, each has one
    num_threads = num_cpus() if is_in_process(pipeline) else 1
    every = pipeline | "shards" >> beam.Create([(shard, None) for shard in range(NUM_SHARDS)])
    (
        (counted, every)
        | "one file each" >> beam.Flatten()
        | "by hash" >> beam.GroupByKey()
        | "sum" >> beam.Map(_write_shard, work, options, num_threads)
    )


def _count(
    numbered: tuple[int, RowGroup], work: WorkFolder, options: VocabConfig
) -> list[tuple[int, Slice]]:
    """(shard, where its words with their counts lie in the work folder)."""
    number, group = numbered
    check_worker(work.address)
    return for_shards(work, _counted_name(number), partial(_packed_counts, group, options))


def _packed_counts(group: RowGroup, options: VocabConfig) -> Iterator[dict[int, bytes]]:
    """Words of one row group with their counts, by language.

    Handed out whenever `MAX_STRINGS` strings are remembered, so a word may come again.
    """
    counters: dict[str, WordCounter] = {}
    for batch in read_columns(group, ["text", "language"], _BATCH_BYTES):
        texts, languages = batch.column("text"), batch.column("language")
        for language in pc.unique(languages).to_pylist():
            if language not in counters:
                counters[language] = WordCounter(options.lowercase)
            counters[language].add(texts.filter(pc.equal(languages, language)))
            if counters[language].num_strings > MAX_STRINGS:
                yield pack_words(language, counters.pop(language).words())
    for language, counter in counters.items():
        yield pack_words(language, counter.words())


def pack_words(language: str, words: pa.Table) -> dict[int, bytes]:
    """Words with their counts by shard, as Arrow streams with a column of the language."""
    if not len(words):
        return {}
    words = words.combine_chunks()
    shards = shards_of(words["word"].chunk(0))
    order = np.argsort(shards, kind="stable")
    ends = np.searchsorted(shards[order], np.arange(NUM_SHARDS), "right").tolist()
    names = pa.repeat(pa.scalar(language, pa.string()), len(words))
    words = words.take(pa.array(order)).append_column("language", names).combine_chunks()
    ranges = enumerate(zip([0, *ends], ends, strict=False))
    return {
        shard: _serialized(words.slice(start, end - start))
        for shard, (start, end) in ranges
        if end > start
    }


def shards_of(words: pa.StringArray) -> NDArray[np.uint8]:
    """Which of NUM_SHARDS each word belongs to: by the sum of a random number for each byte."""
    _, offsets, data = words.buffers()
    ends = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
    letters = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    sums = np.zeros(len(letters) + 1, np.uint32)
    np.cumsum(_NUMBERS[letters], dtype=np.uint32, out=sums[1:])
    shards: NDArray[np.uint8] = (np.diff(sums[ends - ends[0]]) >> 16).astype(np.uint8) % NUM_SHARDS
    return shards


def _serialized(words: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, words.schema, options=options) as stream:
        stream.write_table(words)
    return bytes(sink.getvalue())


def sum_words(packed: Iterable[bytes]) -> pa.Table:
    """The words of a shard, each once in a language, with the sums of their counts, sorted."""
    tables = [pa.ipc.open_stream(stream).read_all() for stream in packed]
    summed = sum_counts(tables, COUNTED.append(pa.field("language", pa.string())))
    return summed.sort_by([("language", "ascending"), ("word", "ascending")])


def _write_shard(
    words: tuple[int, Iterable[Slice | None]],
    work: WorkFolder,
    options: VocabConfig,
    num_threads: int,
) -> None:
    shard, packed = words
    if work.exists(_shard_name(shard)):  # by an earlier attempt
        return
    summed = sum_words([read_slice(work, one) for one in packed if one is not None])
    cut = pa.nulls(len(summed), pa.string())
    if options.pretokenizer == "kiwi":
        cut = _marked(summed["word"], num_threads)
    table = summed.append_column("cut", cut).select(COUNT_SCHEMA.names).cast(COUNT_SCHEMA)
    with work.new_file(_shard_name(shard)) as path:
        pq.write_table(table, path, compression="zstd")


def _shard_name(shard: int) -> str:
    return f"{shard:05d}.parquet"


def _counted_name(number: int) -> str:
    """The file of the words of a row group in the work folder."""
    return f"counts-{number:06d}"


def _marked(words: pa.ChunkedArray, num_threads: int) -> pa.Array:
    """The words with their parts marked; null where a word is one part, as one of jamo alone."""
    is_korean = pc.match_substring_regex(words, "[가-힣]").combine_chunks()
    parts = morphemes_of(words.filter(is_korean).to_pylist(), num_threads)
    marked = [CUT.join(cut) if len(cut) > 1 else None for cut in parts]
    # of all others nothing becomes an object of Python
    nothing = pa.nulls(len(words), pa.string())
    return pc.replace_with_mask(nothing, is_korean, pa.array(marked, pa.string()))


class WordCounter:
    """Counts words of texts; only distinct strings between spaces are cut into words.

    Neither the normaliser nor the pre-tokenizer looks across a space, so cutting there first gives
    the same words. All is done in columns of Arrow, but for the few strings that are not plain: 30
    MB of Korean a second.
    """

    def __init__(self, lowercase: bool) -> None:
        self._normalize = normalizer(lowercase).normalize_str
        self._cut = pre_tokenizer().pre_tokenize_str
        self._plain = PlainWords(lowercase)
        self._strings: list[pa.Table] = []  # distinct in each
        self.num_strings = 0  # remembered

    def add(self, texts: pa.Array) -> None:
        # at these two only: other white space is left to the normaliser, and some that Unicode
        # counts as such it takes out
        spaced = pc.replace_substring(texts.cast(pa.string()), "\n", " ")
        strings = _distinct(pc.split_pattern(spaced, " ").flatten())
        self._strings.append(strings)
        self.num_strings += len(strings)

    def words(self) -> pa.Table:
        """The distinct words so far with their counts, all of which are forgotten with this."""
        strings = sum_counts(self._strings)
        self._strings, self.num_strings = [], 0
        is_word = pc.match_substring_regex(strings["word"], self._plain.word_re2)
        words, others = strings.filter(is_word), strings.filter(pc.invert(is_word))
        is_plain = pc.match_substring_regex(others["word"], self._plain.plain_re2)
        plain, odd = others.filter(is_plain), others.filter(pc.invert(is_plain))
        counted = sum_counts([words, self._plain_words(plain), self._odd_words(odd)])
        lengths = pc.utf8_length(counted["word"])
        is_long = pc.greater(lengths, MAX_WORD_CHARACTERS)
        whole = counted.filter(pc.and_(pc.greater(lengths, 0), pc.invert(is_long)))
        return sum_counts([whole, self._odd_words(counted.filter(is_long))])

    def _plain_words(self, strings: pa.Table) -> pa.Table:
        """Words and marks that stand without a space between them."""
        apart = pc.replace_substring_regex(strings["word"], self._plain.mark_re2, r" \0 ")
        lists = pc.split_pattern(apart, " ")  # the empty string among them is left out at the end
        counts = strings["count"].take(pc.list_parent_indices(lists))
        return pa.table([pc.list_flatten(lists), counts], schema=COUNTED)

    def _odd_words(self, strings: pa.Table) -> pa.Table:
        """Whatever the tokenizer's own steps make of strings."""
        words, counts = list[str](), list[int]()
        for string, count in zip(
            *(strings[name].to_pylist() for name in COUNTED.names), strict=True
        ):
            cut = [word for word, _ in self._cut(self._normalize(string))]
            words += cut
            counts += [count] * len(cut)
        return pa.table([words, counts], schema=COUNTED)


def sum_counts(tables: Iterable[pa.Table], schema: pa.Schema = COUNTED) -> pa.Table:
    """Rows that are equal but for their counts are one."""
    keys = [name for name in schema.names if name != "count"]
    grouped = pa.concat_tables([schema.empty_table(), *tables]).group_by(keys, use_threads=False)
    summed = grouped.aggregate([("count", "sum")])
    return summed.rename_columns([*keys, "count"])


def _distinct(strings: pa.Array) -> pa.Table:
    counts = pc.value_counts(strings)
    return pa.table([counts.field(0), counts.field(1)], schema=COUNTED)
