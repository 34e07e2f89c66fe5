"""Documents to token shards, in Beam.

An element is a row group of a documents file. Its ids are written beside the shards, in a file with
a few arrays for each split and language. All are joined in the order of the text, whatever the
runner.
"""

import gc
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice, pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
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
from vocab.segment import SPECIAL_TOKENS, Segmenter
from vocab.shards.files import ShardEntry, ShardWriter, token_dtype, write_index
from vocab.tokenizer import (
    SEP,
    TOKENIZER_FILE,
    UNK,
    load_tokenizer,
    pieces_of,
    plain_words_of,
    tokenizer_sha256,
)

SECONDS_PER_MEGABYTE = 0.2  # of text, one core
_SPLIT_SEED = 0x5E1EC7  # fixed, so that a text is in the same split in every run
_ARRAYS = ("tokens", "offsets", "counts")
MAX_STRINGS = 1_000_000  # remembered at once, some 200 MB
_UNKNOWN = b"?"  # in place of the ids of a string; never equal to them, by its length
Key = tuple[str, str]  # split, language
CopiesKey = tuple[str, str, int]  # and how many times its documents stand in the shards


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
            entries, counts = join_row_groups(shared, names, folder, size, options)
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
    encoded: defaultdict[CopiesKey, list[bytes]] = defaultdict(list)  # ids of documents
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
                encoded[split, language, times].append(ids and ids + encoder.sep)
    finally:
        gc.enable()
    arrays: dict[str, Any] = {
        f"{split}/{language}/{times}/{name}": array
        for (split, language, times), documents in encoded.items()
        for name, array in _arrays_of(documents, encoder).items()
    }
    with path.open("wb") as file:
        np.savez(file, **arrays)


def _arrays_of(documents: Sequence[bytes], encoder: "WordEncoder") -> dict[str, NDArray[Any]]:
    """`_ARRAYS` by name: what `ShardWriter.add` takes; how many tokens are [UNK], and how many
    documents have no token (they are of control characters only, and left out).
    """
    whole = [ids for ids in documents if ids]
    tokens = np.frombuffer(bytearray().join(whole), encoder.dtype)
    lengths = np.fromiter(map(len, whole), np.int64, len(whole)) // encoder.dtype.itemsize
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    counts = [np.count_nonzero(tokens == encoder.unk), len(documents) - len(whole)]
    return dict(zip(_ARRAYS, (tokens, offsets, np.array(counts, np.int64)), strict=True))


@lru_cache(maxsize=1)
def _encoder(work: WorkFolder) -> "WordEncoder":
    """Once a process."""
    with work.fetch(TOKENIZER_FILE) as path:
        return WordEncoder(load_tokenizer(path.parent))


def join_row_groups(
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
    most_times = dict.fromkeys(names, 1)  # that a document of the row group stands there
    numbers = range(1, max(options.repeats.values(), default=1) + 1)
    # the first pass tells which row groups the later ones need
    passes = ((n, name) for n in numbers for name in names if n <= most_times[name])
    num_row_groups = len(names) if len(numbers) == 1 else None  # else not known before
    with Progress("token shards", num_row_groups, "row groups") as progress:
        for number, name in passes:
            with work.fetch(name) as path, np.load(path) as arrays:
                for prefix in sorted({array.rpartition("/")[0] for array in arrays}):
                    split, language, times = prefix.split("/")
                    most_times[name] = max(most_times[name], int(times))
                    if int(times) < number:
                        continue
                    key = split, language
                    if key not in writers:
                        target = folder / split / language
                        writers[key] = ShardWriter(target, vocab_size, options.shard_tokens)
                    *written, added = (arrays[f"{prefix}/{array}"] for array in _ARRAYS)
                    writers[key].add(*written)
                    num_unknown, num_empty = added.tolist()
                    counts[key]["num_unknown_tokens"] += num_unknown
                    if number == 1:
                        counts[key]["num_documents_without_tokens"] += num_empty
                    else:
                        counts[key]["num_document_copies"] += len(written[1]) - 1
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
    totals = {split: Counter[str]() for split in counts}
    for split, languages in counts.items():
        for entry in languages.values():
            totals[split].update(entry)
    num_documents = sum(t["num_documents"] - t["num_document_copies"] for t in totals.values())
    for split, total in totals.items():
        if not total["num_documents"]:
            raise UserError(
                f"no document fell into the {split} split: encode.valid_fraction = "
                f"{valid_fraction} of {num_documents} documents; give more documents or a "
                f"{'larger' if split == 'valid' else 'smaller'} encode.valid_fraction"
            )
        copies = total["num_document_copies"]
        log(
            f"{split}: {total['num_documents'] - copies:,} documents"
            f"{f' and {copies:,} copies (encode.repeats)' if copies else ''}, "
            f"{total['num_tokens']:,} tokens, of them {total['num_unknown_tokens']:,} {UNK}"
        )
        if dropped := total["num_documents_without_tokens"]:
            log(f"{split}: {dropped:,} documents without any token were dropped")
    return counts


class WordEncoder:
    """A tokenizer with the ids of the strings it has met; `UserError` if it is none of ours.

    WordPiece looks at one word at a time, and no step before it looks across a space, so the ids of
    a text are those of its space-separated strings joined. With the ids of strings met before in a
    dictionary, most of the text costs a look-up. Of new strings nearly all are plain: those need
    the model only, at half the cost of all steps.
    """

    def __init__(self, tokenizer: Any) -> None:
        # a literal "[MASK]" in a document is text, not the special token
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.dtype = token_dtype(tokenizer.get_vocab_size())
        self.unk: int = tokenizer.token_to_id(UNK)
        self._unk_bytes = np.array([self.unk], self.dtype).tobytes()
        self.sep = np.array([tokenizer.token_to_id(SEP)], self.dtype).tobytes()
        self._known: dict[str, bytes] = {"": b""}
        self._lock = threading.Lock()  # a runner may run several threads in one worker
        # strings that normaliser and pre-tokenizer would leave as they are need only the model
        self._plain = plain_words_of(tokenizer)
        self._has_added = _added_in(tokenizer)
        self._segmenter = Segmenter(pieces_of(tokenizer))

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """The ids of each text, as the bytes of an array of `dtype`."""
        # at these two only: a tab or an exotic space is left to the normaliser, and a control
        # character that str.split() takes for a space is none to it (it joins its neighbours)
        spaced = pc.replace_substring(pa.array(texts, pa.large_string()), "\n", " ")
        with self._lock:
            return self._joined(pc.split_pattern(spaced, " "))

    def _joined(self, lists: pa.ListArray) -> list[bytes]:
        """The ids of each list of strings."""
        coded = lists.values.dictionary_encode()
        pool, sizes = self._look_up(coded.dictionary.to_pylist())
        codes = np.frombuffer(coded.indices.buffers()[1] or b"", np.int32)
        lengths = sizes[codes]
        ends = np.cumsum(lengths)
        # of each id, how far its place in the pool lies from its place here
        shifts = (np.cumsum(sizes) - sizes)[codes] - (ends - lengths)
        ids = pool[np.arange(lengths.sum()) + np.repeat(shifts, lengths)].tobytes()
        of_list = np.frombuffer(lists.offsets.buffers()[1], np.int32)[: len(lists) + 1]
        boundaries = np.concatenate([[0], ends])[of_list] * self.dtype.itemsize
        return [ids[start:stop] for start, stop in pairwise(boundaries.tolist())]

    def _look_up(self, strings: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The ids of distinct strings in a row, and how many each has."""
        known = self._known
        if len(known) > MAX_STRINGS:  # those met first are the frequent ones
            known = self._known = dict(islice(known.items(), MAX_STRINGS // 2))
        looked_up = list(map(known.get, strings, repeat(_UNKNOWN)))
        missing = [at for at, ids in enumerate(looked_up) if ids is _UNKNOWN]
        self._learn([strings[at] for at in missing])
        for at in missing:
            looked_up[at] = known[strings[at]]
        sizes = np.fromiter(map(len, looked_up), np.int64, len(looked_up)) // self.dtype.itemsize
        return np.frombuffer(b"".join(looked_up), self.dtype), sizes

    def _learn(self, strings: Iterable[str]) -> None:
        """Tokenise new strings: plain ones word by word, the others by all steps."""
        is_word, is_plain = self._plain.is_word, self._plain.is_plain
        words, several, others = list[str](), list[str](), list[str]()
        for string in strings:
            if self._has_added is not None and self._has_added(string):
                others.append(string)
            elif is_word(string):
                words.append(string)
            elif is_plain(string):
                (several if len(string) > 1 else words).append(string)
            else:
                others.append(string)
        known = self._known
        ids, starts = self._segmenter.ids_of(words)
        size, data = self.dtype.itemsize, ids.astype(self.dtype).tobytes()
        ends = pairwise([*(starts * size).tolist(), len(data)])
        known.update(zip(words, (data[start:end] for start, end in ends), strict=True))
        # [UNK] as a whole to the model; a step before it may set characters apart
        others.extend(word for word in words if known[word] == self._unk_bytes)
        encodings = self._tokenizer.encode_batch_fast(others, add_special_tokens=False)
        for string, encoding in zip(others, encodings, strict=True):
            known[string] = np.array(encoding.ids, self.dtype).tobytes()
        if several:
            apart = pc.replace_substring_regex(pa.array(several), self._plain.mark_re2, r" \0 ")
            known.update(zip(several, self._joined(pc.split_pattern(apart, " ")), strict=True))


def _added_in(tokenizer: Any) -> Callable[[str], object] | None:
    """Tells strings that hold a token which is cut out before all steps; None if none is."""
    tokens = tokenizer.get_added_tokens_decoder().values()
    contents = [re.escape(token.content) for token in tokens if not token.special]
    return re.compile("|".join(contents)).search if contents else None
