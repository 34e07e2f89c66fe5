"""The first pass: what the rules make of each document, and the hashes of what limits leave.

`annotate_files` takes nearly all the time. It reads and cleans, and writes each document with its
statistics and hashes. What it writes depends on no limit, so that a run with other limits begins
behind it (`notes_plan`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import TaggedOutput
from numpy.typing import NDArray

from electrify.config.clean import CleanConfig
from electrify.config.fields import UNDETERMINED, is_language, language_code
from electrify.system.outcome import UserError
from pipeline.dedup.exact import (
    line_hashes,
    pack_hashes,
    text_hash,
    unit_hashes,
    without_case,
)
from pipeline.dedup.minhash import CHARACTERS_AT_ONCE, band_keys, shingle
from pipeline.dedup.near import is_small
from pipeline.dedup.records import NumShards, earlier_texts, is_earlier
from pipeline.documents import in_chunks
from pipeline.passes.files import (
    BLOCKED_HOSTS,
    hashes_name,
    new_rows,
    num_cleaned,
    read_cleaned,
    reading_progress,
    tally_name,
    write_tally,
)
from pipeline.report.counts import RULE_PREFIX, Tally, excerpt, mask_excerpt, tally_from_json
from pipeline.rules.hosts import blocked_host
from pipeline.rules.language import PLAIN_FRACTION, language_meant, main_language, only_language
from pipeline.rules.normalize import remove_lost_characters
from pipeline.rules.order import STATISTICS_SCHEMA, DocumentRules, Outcome
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import Drop
from pipeline.sources.input_file import (
    FILE_BITS,
    ROW_BITS,
    Fault,
    FileBatch,
    InputFile,
    Raw,
    batch_number,
    document_id,
    place_of,
)
from pipeline.sources.readers import read_file
from pipeline.work_folder import WorkFolder, load_once, once

Row = dict[str, Any]
_BLANK: Row = dict.fromkeys(("reason", "altered"))  # a column that a row lacks is null
_MUCH_LEFT = 0.8  # of a text: what was cut is no reason to ask for its language again
_LIMITS = frozenset(("min_characters", "min_language_fraction", "quality"))
_STOPS = frozenset(("damaged_files", "strict"))  # what a worker refuses to go on behind


def notes_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The stage's plan without its limits and stops: what decides the documents with their
    statistics.

    A limit on the language above `PLAIN_FRACTION` needs a closer look at each text.
    """
    by_language = plan["config"]["language"]
    languages = {
        language: {name: of for name, of in rules.items() if name not in _LIMITS}
        for language, rules in by_language.items()
    }
    return {
        "config": {n: of for n, of in plan["config"].items() if n not in _LIMITS | _STOPS}
        | {"language": {language: rules for language, rules in languages.items() if rules}},
        "inputs": plan["inputs"],
        "closely": [
            language
            for language, rules in sorted(({"": plan["config"]} | by_language).items())
            if (rules.get("min_language_fraction") or 0.0) > PLAIN_FRACTION
        ],
    }


class RulesOf(dict[tuple[int, str], DocumentRules]):
    """The rules of a source, by its index, for one of its languages; made when asked for."""

    def __init__(self, config: CleanConfig) -> None:
        self._config = config

    def __missing__(self, key: tuple[int, str]) -> DocumentRules:
        source = self._config.sources[key[0]].model_copy(update={"language": key[1]})
        self[key] = DocumentRules(source, self._config)
        return self[key]


def clean_files(
    files: FileBatch, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[Any]:
    """(batch, b""); "texts": (shard, (batch, packed hashes)) of the rows that no limit removes. The
    rows of the files go into the work folder, in batches of documents.

    Raises `UserError` with file and row for a file or, if the config is strict, a row that cannot
    be read.
    """
    make = partial(_annotate_and_hash, files, config, work, shards)
    hashes = once(work, hashes_name(files.index), make)
    for index, for_shards in enumerate(hashes):
        batch = batch_number(files.index, index)
        for shard, packed in for_shards:
            yield TaggedOutput("texts", (shard, (batch, packed)))
        yield batch, b""


def _annotate_and_hash(
    files: FileBatch, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterator[dict[int, bytes]]:
    """By shard the packed hashes of the texts of each batch."""
    name = tally_name("read", files.index)
    # where it has a fault that this config refuses, reading again raises what the fault is
    if not work.exists(name) or _is_refused(tally_from_json(work.read(name).decode()), config):
        annotate_files(files, config, work)
    rules_of = RulesOf(config)
    for index in range(num_cleaned(work, files.index)):
        batch = batch_number(files.index, index)
        yield _packed_hashes(batch, rules_of, work, shards) if config.exact_dedup else {}


def _is_refused(tally: Tally, config: CleanConfig) -> bool:
    counts = tally.by_reason("malformed")
    num_damaged = counts.pop("unreadable_file", 0)
    return (num_damaged > 0 and config.damaged_files == "stop") or (config.strict and counts != {})


def annotate_files(files: FileBatch, config: CleanConfig, work: WorkFolder) -> None:
    """Rows of a batch of files into the work folder, with statistics and hashes of their texts."""
    tally = Tally()
    add = reading_progress(work, files.index, sum(file.num_bytes for file in files.files))
    hosts = load_once(work, BLOCKED_HOSTS, np.load) if config.blocked_hosts else None
    rows = chain.from_iterable(
        _earlier_rows(file)
        if file.is_earlier
        else _FileCleaner(replace(file, on_read=add), config, tally, hosts).rows()
        for file in files.files
    )
    num_characters = 0

    def index_of(row: Row) -> int:
        nonlocal num_characters
        index = num_characters // files.batch_characters
        num_characters += len(row["text"])
        return index

    for index, (_, batch_rows) in enumerate(groupby(rows, index_of)):
        with new_rows(work, "cleaned", batch_number(files.index, index)) as parts:
            for numbered in in_texts(enumerate(batch_rows)):
                _add_hashes([row for _, row in numbered if row["reason"] is None], config)
                parts.write([row for _, row in numbered])
    write_tally(work, "read", files.index, tally)


def _add_hashes(rows: Sequence[Row], config: CleanConfig) -> None:
    for row in rows:
        folded = without_case(row["text"])
        row["text_hash"] = text_hash(folded)
        row |= parts_of(row["rank"], row["text"], folded, config)
    if rows and config.near_dedup.enabled:
        for row, keys in zip(rows, bands_of([row["text"] for row in rows], config), strict=True):
            row["band_keys"] = keys


def parts_of(rank: int, text: str, folded: bytes, config: CleanConfig) -> Row:
    """The hashes of the units and of the lines of a text, without what the config does not ask for;
    `folded` is the text without case."""
    parts: Row = {}
    if config.contained_dedup:
        parts["unit_hashes"] = unit_hashes(folded)
    if config.line_dedup.enabled and not is_earlier(rank):
        hashes = line_hashes(text, folded, config.line_dedup.min_characters)
        parts["line_hashes"] = [*{line for _, line in hashes}]
    return parts


def _packed_hashes(
    batch: int, rules_of: RulesOf, work: WorkFolder, shards: NumShards
) -> dict[int, bytes]:
    left = pa.Table.from_batches(
        rows.filter(pa.array(drops_of(rows, rules_of)[1]))
        for rows in read_cleaned(work, batch, (*JUDGED, "text_hash"))
    )
    hashes = b"".join(left["text_hash"].to_pylist())
    return pack_hashes(hashes, left["rank"].to_numpy(), shards.texts)


def flat(lists: pa.ChunkedArray) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The values of a column of lists, and how many each has."""
    joined = lists.combine_chunks()
    counts = pc.fill_null(pc.list_value_length(joined), 0).to_numpy().astype(np.int64)
    return joined.flatten().to_numpy(), counts


JUDGED = ("rank", "reason", "language", *STATISTICS_SCHEMA.names)  # columns that limits need


def drops_of(rows: pa.RecordBatch, rules_of: RulesOf) -> tuple[dict[int, Drop], NDArray[np.bool_]]:
    """By ascending place the first limit that a row breaks, of its source and language; and which
    rows are left."""
    drops: dict[int, Drop] = {}
    for key, places in groups_of(rows):
        of_group = rules_of[key].drops(rows.take(pa.array(places)))
        drops |= {int(places[place]): drop for place, drop in of_group.items()}
    is_left = rows.column("reason").is_null().to_numpy(zero_copy_only=False)
    is_left[[*drops]] = False
    return dict(sorted(drops.items())), is_left


def groups_of(rows: pa.RecordBatch) -> Iterator[tuple[tuple[int, str], NDArray[np.int64]]]:
    """(index of the source, language) and the places of its rows; none of an earlier corpus."""
    sources = rows.column("rank").to_numpy() >> np.uint64(FILE_BITS + ROW_BITS)
    languages = rows.column("language").dictionary_encode()
    codes = languages.indices.to_numpy()
    for source, code in sorted({*zip(sources.tolist(), codes.tolist(), strict=True)}):
        if not is_earlier(source << FILE_BITS + ROW_BITS):
            places = np.flatnonzero((sources == source) & (codes == code))
            yield (source, languages.dictionary[code].as_py()), places


def removed_row(row: Row, drop: Drop, rules_of: RulesOf, config: CleanConfig, tally: Tally) -> Row:
    """The row with the reason and the text as it was read, masked if need be; it is counted."""
    rules = rules_of[place_of(row["rank"])[0], row["language"]]
    raw = row["text"] if row["raw"] is None else row["raw"]
    shown, is_hidden = rules.masked(raw, row["text"], "_masked=" in (row["altered"] or ""))
    where = (row["language"], row["source"])
    tally.add_removed("removed", drop.reason, document_id(row["rank"]), shown, *where, len(raw))
    text = shown if config.keep_removed == "masked" and is_hidden else raw
    return row | {"text": text, "raw": None, "reason": drop.reason, "detail": drop.detail}


def _earlier_rows(file: InputFile) -> Iterator[Row]:
    for rank, text in earlier_texts(file):
        yield _BLANK | {"rank": rank, "text": text, "language": "", "source": ""}


class _FileCleaner:
    """The rows of one file, cleaned, with their statistics or the reason why they are removed."""

    def __init__(
        self, file: InputFile, config: CleanConfig, tally: Tally, hosts: NDArray[np.uint64] | None
    ) -> None:
        self.file, self.config, self.tally, self.hosts = file, config, tally, hosts
        self.source = source = config.sources[file.source_index]
        self.is_any = source.language == "auto"
        self.own = UNDETERMINED if self.is_any else source.language
        self.languages = (self.own, *source.other_languages)
        self.language = self.own  # of the row at hand
        self.name = source.name or file.stem
        self.rules_of = RulesOf(config)

    def rows(self) -> Iterator[Row]:
        counts = {"documents": 0, "malformed": 0}
        for item in read_file(self.file, self.source, self.config.max_line_bytes):
            if isinstance(item, Fault):
                self.language = self.own
                counts["malformed"] += 1
                yield self._malformed(item)
            else:
                counts["documents"] += 1
                yield self._cleaned(item)
        self.tally.files.append({"path": self.file.path} | counts)

    def _outcome(self, raw: Raw) -> Outcome:
        """The text by the rules of its language: the one of the source's languages that the row
        names or, if it names none of them, that the text is in; else the source's first.

        The text is asked again when rules have taken much of it: a short page in much markup.
        """
        named = raw.language and language_code(raw.language)
        if named and (is_language(named) if self.is_any else named in self.languages):
            self.language = named
            return self._rules.clean(raw.text)
        self.language = self._language_of(raw.text, self.own)
        outcome = self._rules.clean(raw.text)
        if len(outcome.text) < _MUCH_LEFT * len(raw.text):
            before, self.language = self.language, self._language_of(outcome.text, self.language)
            if self.language != before:
                outcome = self._rules.clean(raw.text)
        if self.language == UNDETERMINED:
            return Outcome(raw.text, Drop("unknown_language", "no model is sure of one"), {})
        return outcome

    def _language_of(self, text: str, otherwise: str) -> str:
        if self.is_any:
            return main_language(text) or otherwise
        if len(self.languages) == 1:
            return otherwise
        main = main_language(text)
        if main and (meant := language_meant(main, self.languages)):
            return meant
        # none of them by the models, which may not know; the limit on the language decides
        return only_language(text, self.languages) or otherwise

    @property
    def _rules(self) -> DocumentRules:
        return self.rules_of[self.file.source_index, self.language]

    def _row(self, item: Raw | Fault, source: str) -> Row:
        return {
            **_BLANK,
            "rank": self.file.first_rank + item.row,
            "text": item.text,
            "language": self.language,
            "source": source,
            "source_id": _storable(item.source_id),
        }

    def _malformed(self, fault: Fault) -> Row:
        where = self.file.where(fault.row, fault.offset)
        detail = mask_pii(_storable(fault.detail) or "", self.language)[0]
        if fault.reason == "unreadable_file":
            if self.config.damaged_files == "stop":
                raise UserError(
                    f"{where}: {detail}. Repair the file, take it out of the sources, or set "
                    'clean.damaged_files = "keep" to take what can be read of it'
                )
        elif self.config.strict:
            raise UserError(
                f"{where}: {fault.reason}: {detail} (clean.strict = false counts it and continues)"
            )
        name = self.name
        self.tally.add_removed("malformed", fault.reason, where, fault.text, self.language, name)
        self.tally.add_example(f"{where}: {fault.reason}: {detail}")
        return self._row(fault, name) | {"reason": fault.reason, "detail": f"{where}: {detail}"}

    def _cleaned(self, raw: Raw) -> Row:
        if self.hosts is not None and (host := blocked_host(raw.url, self.hosts)):
            self.language = self._language_of(raw.text, self.own)
            outcome = Outcome(raw.text, Drop("blocked_host", host), {})
        else:
            outcome = self._outcome(raw)
        tally, rules = self.tally, self._rules
        row = self._row(raw, _storable(raw.source) or self.name)
        row["url"] = _storable(raw.url)
        row["licence"] = _storable(raw.licence or self.source.licence)
        label, where = document_id(row["rank"]), (row["language"], row["source"])
        tally.count_document("in", len(raw.text), *where)
        tally.count_year(raw.date)
        for rule, (count, before, after) in outcome.changes.items():
            note(row, rule, count)
            if not tally.wants(RULE_PREFIX + rule, label, *where):
                continue
            if rule.endswith("_masked"):
                shown = mask_excerpt(after, f"<{rule.removesuffix('_masked')}>")
            else:
                texts = (
                    rules.masked(of, outcome.text, outcome.has_masks) for of in (before, after)
                )
                shown = excerpt(*(masked for masked, _ in texts))
            tally.add_sample(RULE_PREFIX + rule, label, shown, *where)
        text = _storable(raw.text) or ""
        row |= {"text": outcome.text, "raw": None if text == outcome.text else text}
        if outcome.drop is not None:
            return removed_row(row, outcome.drop, self.rules_of, self.config, tally)
        return row | rules.statistics(outcome.text)


def note(row: Row, rule: str, count: int) -> None:
    """Note what changed a row; it is counted when the row is kept."""
    row["altered"] = " ".join(filter(None, (row["altered"], f"{rule}={count}")))


def _storable(text: str | None) -> str | None:
    """The text in UTF-8, which cannot hold lone surrogates; None of an empty one."""
    return (text if not text or text.isascii() else remove_lost_characters(text)) or None


def bands_of(texts: Sequence[str], config: CleanConfig) -> Iterator[NDArray[np.uint64]]:
    """The keys of each text: of all bands, of the first if one will do, or none."""
    near = config.near_dedup
    shingles = shingle(texts)
    num_shingles = np.diff(shingles.offsets)
    num_keys = np.where(is_small(num_shingles, near.similarity), 1, near.num_bands)
    num_keys[num_shingles == 0] = 0
    for keys, num in zip(
        band_keys(shingles, near.num_bands, near.rows_per_band), num_keys, strict=True
    ):
        yield keys[:num]


def in_texts(rows: Iterable[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    """Rows with their numbers, of about `CHARACTERS_AT_ONCE` together."""
    return in_chunks(rows, lambda numbered: len(numbered[1]["text"]), CHARACTERS_AT_ONCE)
