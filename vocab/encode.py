"""Documents to token shards, in Beam.

An element is a row group of a documents file. Its ids are written beside the shards, in a file with
a few arrays for each split and language. All are joined in the order of the text, whatever the
runner.
"""

import gc
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, pairwise
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
from pipeline.rules.characters import WIDE_ENDS
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
_ARRAYS = ("tokens", "offsets", "sentences", "counts")
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
        check_sources({"repeats": options.repeats, "streams": stream_of(options)}, documents)
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


def stream_of(options: EncodeConfig) -> dict[str, str]:
    """The stream of a source, for those that have one."""
    return {source: name for name, sources in options.streams.items() for source in sources}


def check_sources(named: Mapping[str, Mapping[str, object]], documents: Sequence[Path]) -> None:
    """`ValueError` if no document has one of the sources that an option of `encode` names."""
    if not any(named.values()):
        return
    sources: set[str] = set()
    for path in documents:
        sources.update(pc.unique(pq.read_table(path, columns=["source"]).column(0)).to_pylist())
    for option, names in named.items():
        if unknown := sorted(set(names) - sources):
            raise UserError(
                f"encode.{option}: no document has the source {unknown[0]!r}; the sources are "
                f"{', '.join(sorted(sources)[:20])}"
            )


def write_ids(group: RowGroup, path: Path, work: WorkFolder, options: EncodeConfig) -> None:
    """Write the ids of one row group into a file: its `EncodedDocuments.arrays` by key."""
    encoder = _encoder(work)
    encoded: defaultdict[PartKey, EncodedDocuments] = defaultdict(EncodedDocuments)
    columns, streams = ("text", "language", "source"), stream_of(options)
    # millions of short lists, no cycle among them: looking for one takes a tenth of the time
    gc.disable()
    try:
        for batch in read_columns(group, columns):
            texts, languages, sources = (batch.column(name).to_pylist() for name in columns)
            cut = [*map(cut_sentences, texts)]
            ids = iter(encoder.encode(list(chain.from_iterable(cut))))
            rows = zip(texts, languages, sources, cut, strict=True)
            for text, language, source, sentences in rows:
                split = split_of(text, options.valid_fraction)
                times = options.repeats.get(source, 1) if split == "train" else 1
                stream = streams.get(source, language)
                encoded[split, stream, times].add([next(ids) for _ in sentences], encoder.sep)
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


# A sentence ends at a newline; behind . ! ? … and what closes a quotation, if a space follows
# (not behind a number or an initial: "3. 1 운동", "J. Kim"); behind `WIDE_ENDS` without one.
# One character class comes first, so that the search skips from one candidate to the next.
_CLOSE = "[\"'”’)\\]」』》»]*+"
_SENTENCE_END = re.compile(
    rf"[\n.!?…{WIDE_ENDS}]"
    r"(?:(?<=\n)"
    rf"|(?<=[!?…])[.!?…]*+{_CLOSE}(?=\s)"
    r"|(?<=[^\s.][.])(?<![0-9][.])(?<![\s.\"'(][A-Z][.])"
    rf"(?<!\bMr[.])(?<!\bDr[.])(?<!\bMrs[.])(?<!\bSt[.])(?<!\bvs[.]){_CLOSE}(?=\s)"
    rf"|(?<=[.])\.++{_CLOSE}(?=\s)"
    rf"|(?<=[{WIDE_ENDS}])[{WIDE_ENDS}”’」』）》\"']*+)"
    r"\s*+"
)


def cut_sentences(text: str) -> list[str]:
    """The text in pieces that join to it again, one a sentence or line.

    A cut that would fall inside a word, or between characters that normalisation joins, is left
    out: the ids of the pieces, joined, are the ids of the text.
    """
    ends = [end.end() for end in _SENTENCE_END.finditer(text)]
    if ends and text[: ends[0]].isspace():
        del ends[0]
    cuts = [end for end in ends if end < len(text) and is_between_words(text, end)]
    return [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]


def is_between_words(text: str, cut: int) -> bool:
    """Whether the tokenizer ends a word before character number `cut` for certain.

    After a space or line break; or after a punctuation mark, before a letter, digit, mark or space
    (not before a combining accent, which would change the mark).
    """
    before, after = text[cut - 1], text[cut]
    if before in " \n":
        return True
    return unicodedata.category(before)[0] == "P" and unicodedata.category(after)[0] in "LNPSZ"
