"""The first pass over a group of files: read, clean, filter, and hash what the others compare."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from electrify.config_clean import CleanConfig, Source
from pipeline.document_rules import DocumentRules, document_rules
from pipeline.exact_dedup import pack_hashes, text_hash
from pipeline.input_file import ROW_BITS, InputFile, InputGroup, document_id
from pipeline.line_dedup import LineCounter
from pipeline.normalize import remove_lost_characters
from pipeline.raw import Fault, Raw
from pipeline.readers import read_file
from pipeline.tally import Tally
from pipeline.work_files import PassProgress, cleaned_parts, write_tally
from pipeline.work_folder import WorkFolder

Row = dict[str, Any]


@dataclass
class Hashes:
    """What the first pass hands on, packed by shard."""

    documents: dict[int, bytes] = field(default_factory=dict)
    lines: dict[int, bytes] = field(default_factory=dict)


def clean_group(group: InputGroup, config: CleanConfig, work: WorkFolder) -> Hashes:
    """Rows of a group of files into the work folder; hashes of documents and lines.

    Raises `ValueError` with file and row for a file or, if the config is strict, a row that
    cannot be read.
    """
    tally = Tally()
    hashes: list[bytes] = []
    ranks: list[int] = []
    lines = LineCounter(config.line_dedup.min_characters, config.line_dedup.max_documents)
    progress = PassProgress(work, "read", group.index, sum(file.num_bytes for file in group.files))
    files = (replace(file, on_read=progress.add) for file in group.files)
    with cleaned_parts(work, group.index) as rows:
        for row in chain.from_iterable(_clean_file(file, config, tally) for file in files):
            rows.write(row)
            if row["reason"] is None:
                hashes.append(text_hash(row["text"]))
                ranks.append(row["rank"])
                if config.line_dedup.enabled:
                    lines.add(row["text"], _number(hashes[-1], row["rank"], config.exact_dedup))
    write_tally(work, "read", group.index, tally)
    documents = pack_hashes(hashes, ranks) if hashes and config.exact_dedup else {}
    return Hashes(documents, lines.pack())


def _clean_file(file: InputFile, config: CleanConfig, tally: Tally) -> Iterator[Row]:
    source = config.sources[file.source_index]
    rules = document_rules(source, config)
    num_documents = num_malformed = 0
    for item in read_file(file, source, config.max_line_bytes):
        if isinstance(item, Fault):
            num_malformed += 1
            yield _malformed_row(file, source, item, config, tally)
        else:
            num_documents += 1
            yield _clean_row(file, source, item, rules, tally)
    tally.files.append({"path": file.path, "documents": num_documents, "malformed": num_malformed})


def _malformed_row(
    file: InputFile, source: Source, fault: Fault, config: CleanConfig, tally: Tally
) -> Row:
    where, detail = file.where(fault.row, fault.offset), _storable(fault.detail)
    if fault.reason == "unreadable_file":
        if config.damaged_files == "stop":
            raise ValueError(
                f"{where}: {detail}. The file cannot be read from here on: repair it, take it out "
                'of the sources, or set clean.damaged_files = "keep" to take what comes before'
            )
    elif config.strict:
        raise ValueError(
            f"{where}: {fault.reason}: {detail} (clean.strict = false counts it and goes on)"
        )
    name = source.name or file.stem
    tally.add_malformed(fault.reason, where, fault.text, source.language, name)
    tally.add_example(f"{where}: {fault.reason}: {detail}")
    return {
        "rank": file.first_rank + fault.row,
        "text": fault.text,
        "language": source.language,
        "source": name,
        "url": None,
        "licence": None,
        "source_id": _storable(fault.source_id or "") or None,
        "reason": fault.reason,
        "detail": f"{where}: {detail}",
    }


def _clean_row(
    file: InputFile, source: Source, raw: Raw, rules: DocumentRules, tally: Tally
) -> Row:
    name = _storable(raw.source or "") or source.name or file.stem
    row: Row = {
        "rank": file.first_rank + raw.row,
        "text": raw.text,
        "language": source.language,
        "source": name,
        "url": _storable(raw.url or "") or None,
        "licence": _storable(raw.licence or source.licence or "") or None,
        "source_id": _storable(raw.source_id or "") or None,
        "reason": None,
        "detail": None,
    }
    where = (source.language, name)
    tally.add_document_in(raw.text, *where)
    outcome = rules.clean(raw.text)
    for rule, count in outcome.altered.items():
        tally.add_altered(rule, count, *where)
    label = document_id(row["rank"])
    if any(tally.wants_change(rule, label, *where) for rule in outcome.altered):
        for rule, shown in rules.changes(raw.text):
            tally.add_change(rule, label, shown, *where)
    if outcome.drop is None:
        return row | {"text": outcome.text}
    text = _storable(raw.text)
    tally.add_removed(outcome.drop.reason, label, text, *where)
    return row | {"text": text, "reason": outcome.drop.reason, "detail": outcome.drop.detail}


def _number(text_hash: bytes, rank: int, exact_dedup: bool) -> int:
    """32 bits that tell documents apart, but not those of which only one is kept."""
    if exact_dedup:
        return int.from_bytes(text_hash[:4])
    return (rank + (rank >> ROW_BITS) * 0x9E3779B1) & 0xFFFFFFFF


def _storable(text: str) -> str:
    """UTF-8 cannot hold lone surrogates."""
    return text if text.isascii() else remove_lost_characters(text)
