"""What a folder of unknown text holds: its sources as a config names them, and about how much.

Heads of some files are read, evenly spread over the folder. What they hold stands for the rest.
"""

import glob
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from electrify.config.clean import Kind, Source
from electrify.config.names import check_language
from pipeline.rules.language import main_language
from pipeline.sources.files import REFUSED, fault_of_name
from pipeline.sources.input_file import InputFile, open_source, packing, text_ending
from pipeline.sources.lines import guess_any_encoding, head_of, read_text_lines
from pipeline.sources.raw import Fault, Raw, TooLong
from pipeline.sources.readers import DAMAGES, read_file
from pipeline.sources.tables import is_string, table_rows
from pipeline.sources.text import json_value

KIND_OF_ENDING: dict[str, Kind] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".txt", ".md"), "text"),
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".xml": "wikipedia",
    ".wet": "wet",
}
_NO_LINES = "not one JSON object a line: write it so, for example jq -c '.[]' FILE > FILE.jsonl"
_OTHER = {
    ".arrow": 'of save_to_disk: write kind = "huggingface" and path = its folder',
    **REFUSED,
}
_MAX_SAMPLED = 50  # files of one ending
_MAX_SPLIT = 32  # sources that one ending becomes where its files differ
_SAMPLE_BYTES = 1_000_000  # of a file as it is stored
_MAX_LINE_BYTES = 20_000_000
_FIELD_ROWS = 100  # that tell which field holds the text
_MAX_JUDGED = 300  # documents of one ending whose language is asked for
_JUDGED_CHARACTERS = 4000
_MANY_FILES, _SMALL_FILE_BYTES = 20, 256_000  # of which each is a document
_TABLE_LINES = 20  # that tell whether a file of text is a table with tabs
_LINES_A_BLOCK = 50  # at most, where blank lines are taken for borders of documents

T = TypeVar("T")


@dataclass(frozen=True)
class FoundSource:
    """A source, and estimates of what it holds."""

    source: Source
    num_files: int
    num_bytes: int  # as they are stored
    num_documents: int
    text_bytes: int  # of the documents, as UTF-8
    language_bytes: Mapping[str, int]  # of the documents whose language is known, among those read
    other_fields: tuple[str, ...]
    fault: str = ""  # the first that was met


@dataclass(frozen=True)
class _Sample:
    """What the head of one file says of it. None: it fits any other file."""

    kind: Kind
    text_field: str | None
    encoding: str | None
    quoted: bool | None
    document: str | None
    fields: tuple[str, ...]
    num_bytes: int  # of the file, as it is stored
    num_documents: float  # of the whole file
    text_bytes: float
    language_bytes: Mapping[str, int]
    fault: str

    @property
    def language(self) -> str | None:
        return max(self.language_bytes, key=self.language_bytes.__getitem__, default=None)


_MUST_AGREE = ("kind", "text_field", "encoding", "quoted", "language")  # in a source


def survey(root: Path) -> tuple[list[FoundSource], list[str]]:
    """The sources in a folder, or that a file is, and a line on each kind of file that none reads.

    Files of one ending are one source; where they differ in language, fields or encoding, so is
    each file and folder right below the root. Raises `ValueError` for a root that is not there or
    cannot be read.
    """
    if not root.exists():
        raise ValueError(f"no file or folder at {root} (relative paths start at {Path.cwd()})")
    sizes = {root: root.stat().st_size} if root.is_file() else _files_below(root)
    found: list[FoundSource] = []
    unread: list[str] = []
    by_ending: dict[str, list[Path]] = {}
    for path in sizes:
        if fault := fault_of_name(str(path)):
            unread.append(fault)
        else:
            by_ending.setdefault(_whole_ending(path), []).append(path)
    for ending, paths in by_ending.items():
        if text_ending(str(paths[0])) not in KIND_OF_ENDING:
            advice = _OTHER.get(text_ending(str(paths[0])), "unknown to every kind of source")
            unread.append(f"{len(paths):,} {ending or 'without an ending'}: {advice}")
            continue
        sources, reasons = _sources_of(root, ending, {path: sizes[path] for path in paths})
        found += sources
        unread += reasons
    return found, unread


def _files_below(folder: Path) -> dict[Path, int]:
    """Bytes by path, in order; what is hidden, and files without a byte, are left out."""
    files = {
        path: path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    }
    return {path: num_bytes for path, num_bytes in files.items() if num_bytes}


def _whole_ending(path: Path) -> str:
    """As the name has it, with that of its packing: ".jsonl.gz"."""
    packed = path.suffix if packing(path.name) else ""
    return Path(path.name.removesuffix(packed)).suffix + packed


def _sources_of(
    root: Path, ending: str, sizes: Mapping[Path, int]
) -> tuple[list[FoundSource], list[str]]:
    paths = list(sizes)
    is_many = len(paths) >= _MANY_FILES and sum(sizes.values()) <= _SMALL_FILE_BYTES * len(paths)
    num_judged = max(2, _MAX_JUDGED // len(paths))
    samples: dict[Path, _Sample | str] = {}

    def sampled(paths: Sequence[Path]) -> list[_Sample | str]:
        for path in paths:
            if path not in samples:
                samples[path] = _sample(path, sizes[path], is_many, num_judged)
        return [samples[path] for path in paths]

    parts = {_pattern(root, ending, paths): paths}
    if not _agree(sampled(_spread(paths, _MAX_SAMPLED))) and len(paths) > 1:
        children = _children(root, ending, paths)
        parts = children if len(children) <= _MAX_SPLIT else parts
    found: list[FoundSource] = []
    unread: list[str] = []
    for pattern, members in parts.items():
        # those that were read already, if there are any among the members
        known = [path for path in members if path in samples] or _spread(members, 5)
        heads = sampled(known)
        if reasons := [head for head in heads if isinstance(head, str)]:
            unread.append(f"{pattern}: {reasons[0]}")
        if good := [head for head in heads if isinstance(head, _Sample)]:
            num_bytes = sum(sizes[path] for path in members)
            name = root.stem if is_many else None
            found.append(_joined(good, pattern, len(members), num_bytes, name))
    return found, unread


def _pattern(folder: Path, ending: str, paths: Sequence[Path]) -> str:
    """A glob for the files of a folder, or the path of a single one."""
    if len(paths) == 1:
        return str(paths[0])
    is_flat = all(path.parent == folder for path in paths)
    return f"{glob.escape(str(folder))}/{'' if is_flat else '**/'}*{ending}"


def _children(root: Path, ending: str, paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Paths by the file or folder right below the root in which they stand."""
    names = itertools.groupby(paths, key=lambda path: path.relative_to(root).parts[0])
    members = [(root / name, list(of_name)) for name, of_name in names]
    return {_pattern(child, ending, below): below for child, below in members}


def _spread(items: Sequence[T], most: int) -> list[T]:
    """At most so many of the items, evenly spaced."""
    if len(items) <= most:
        return list(items)
    return [items[index * len(items) // most] for index in range(most)]


def _agree(samples: Iterable[_Sample | str]) -> bool:
    values: dict[str, set[object]] = {name: set() for name in _MUST_AGREE}
    for sample in samples:
        if isinstance(sample, str):
            return False
        for name in _MUST_AGREE:
            values[name].add(getattr(sample, name))
    return all(len(of_name - {None}) <= 1 for of_name in values.values())


def _joined(
    samples: Sequence[_Sample], pattern: str, num_files: int, num_bytes: int, name: str | None
) -> FoundSource:
    """One source for all samples, with what most of their text has where they differ."""
    kinds = Counter(sample.kind for sample in samples)
    samples = [sample for sample in samples if sample.kind == kinds.most_common(1)[0][0]]
    chosen: dict[str, Any] = {}
    for choice in (*_MUST_AGREE, "document"):
        weights: Counter[Any] = Counter()
        for sample in samples:
            weights[getattr(sample, choice)] += round(sample.text_bytes) + 1
        weights.pop(None, None)
        if weights:
            chosen[choice] = weights.most_common(1)[0][0]
    languages: Counter[str] = Counter()
    for sample in samples:
        languages.update(sample.language_bytes)
    share = num_bytes / sum(sample.num_bytes for sample in samples)
    source = Source(**{"language": "en", "path": pattern, "name": name} | chosen)
    num_documents = share * sum(sample.num_documents for sample in samples)
    fields = dict.fromkeys(field for sample in samples for field in sample.fields)
    return FoundSource(
        source,
        num_files,
        num_bytes,
        num_files if source.document == "file" else round(num_documents),
        round(share * sum(sample.text_bytes for sample in samples)),
        languages,
        tuple(field for field in fields if field != source.text_field),
        next((sample.fault for sample in samples if sample.fault), ""),
    )


def _sample(path: Path, num_bytes: int, is_document: bool, num_judged: int) -> _Sample | str:
    """What a file holds, or why it is not read."""
    if not num_bytes:
        return "the file is empty"
    file = InputFile(str(path), num_bytes, 0, 0, file_bytes=num_bytes)
    try:
        return _read_sample(file, is_document, num_judged)
    except DAMAGES as error:
        return f"damaged: {type(error).__name__}: {error}"


def _read_sample(file: InputFile, is_document: bool, num_judged: int) -> _Sample | str:
    kind = KIND_OF_ENDING[text_ending(file.path)]
    head = b"" if kind in ("parquet", "wet") else head_of(file)
    if kind == "wikipedia" and b"<mediawiki" not in head:
        return "XML, but no dump of Wikipedia: write its text out, one JSON object a line"
    has_encoding = kind in ("jsonl", "text", "csv", "tsv") and not head.isascii()
    encoding = guess_any_encoding(head) if has_encoding else None
    options: dict[str, Any] = {"encoding": encoding or "utf-8"}
    if kind == "text" and _is_table(head.decode(options["encoding"], "replace")):
        kind = "tsv"
    if kind == "text":
        options["document"] = "file" if is_document else _text_document(head, options["encoding"])
    source = Source(kind=kind, language="en", path=file.path, **options)
    if kind in ("csv", "tsv"):
        source = _with_quotes_or_without(file, source, head)
    head_rows = list(itertools.islice(_rows(file, source), _FIELD_ROWS))
    rows = [row for row in head_rows if row]
    # of a list with an object a line the last one alone is JSON by itself
    if kind == "jsonl" and (not rows or 2 * len(rows) < len(head_rows)):
        return _NO_LINES
    if rows:
        if (text_field := _text_field(rows)) is None:
            return f"no field with text (there are: {', '.join(rows[0])})"
        source = source.model_copy(update={"text_field": text_field})
    documents, faults, share = _read_head(file, source)
    texts = [document.text for document in documents]
    if not faults and not any(map(str.strip, texts)):
        return "no text in it"
    return _Sample(
        kind,
        source.text_field if rows else None,
        encoding,
        source.quoted if kind in ("csv", "tsv") and b'"' in head else None,
        source.document if kind == "text" else None,
        tuple(dict.fromkeys(field for row in rows for field in row)),
        file.num_bytes,
        len(texts) * share,
        sum(len(text.encode("utf-8", "replace")) for text in texts) * share,
        _language_bytes(_spread(texts, num_judged)),
        f"{file.where(faults[0].row)}: {faults[0].reason}: {faults[0].detail}" if faults else "",
    )


def _is_table(head: str) -> bool:
    """Whether each of the first lines has the same number of tabs, and at least one."""
    lines = [line for line in head.split("\n")[:-1] if line.strip()][:_TABLE_LINES]
    counts = {line.count("\t") for line in lines}
    return len(lines) > 2 and len(counts) == 1 and counts != {0}


def _text_document(head: bytes, encoding: str) -> str:
    """Blocks where blank lines stand often enough, else lines."""
    text = head.decode(encoding, "replace").replace("\r\n", "\n").strip()
    num_blocks = len(re.findall(r"\n[ \t]*\n\s*", text)) + 1
    return "block" if 1 < num_blocks >= text.count("\n") / _LINES_A_BLOCK else "line"


def _with_quotes_or_without(file: InputFile, source: Source, head: bytes) -> Source:
    """A table that was written without quotation marks gives more rows without, and no fault."""
    plain = source.model_copy(update={"quoted": False})
    if b'"' not in head:
        return source
    quoted_rows = list(itertools.islice(_rows(file, source), 10 * _FIELD_ROWS))
    plain_rows = list(itertools.islice(_rows(file, plain), 10 * _FIELD_ROWS))
    is_plain = all(plain_rows) and len(plain_rows) > len(list(filter(None, quoted_rows)))
    return plain if is_plain else source


def _rows(file: InputFile, source: Source) -> Iterator[dict[str, Any]]:
    """The fields of each row, of kinds that have any; empty of a row that is bad."""
    if source.kind == "parquet":
        with open_source(file) as opened, pq.ParquetFile(opened) as table:
            for batch in itertools.islice(table.iter_batches(batch_size=_FIELD_ROWS), 1):
                columns = [_strings(column) for column in batch.columns]
                for values in zip(*columns, strict=True):
                    yield dict(zip(batch.schema.names, values, strict=True))
    elif source.kind in ("jsonl", "csv", "tsv"):
        lines = (
            line.decode("utf-8", "replace")
            for _, line in read_text_lines(file, source.encoding, _MAX_LINE_BYTES)
            if not isinstance(line, TooLong)
        )
        yield from (_json_rows if source.kind == "jsonl" else _table_rows)(lines, source)


def _strings(column: pa.Array) -> list[str | None]:
    """The values where they are text: not each of another type has one in Python, as far dates."""
    return column.to_pylist() if is_string(column.type) else [None] * len(column)


def _json_rows(lines: Iterable[str], source: Source) -> Iterator[dict[str, Any]]:
    for line in lines:
        if not line or line.isspace():
            continue
        try:
            value = json_value(line.encode())
        except ValueError:
            value = None
        yield value if isinstance(value, dict) else {}


def _table_rows(lines: Iterable[str], source: Source) -> Iterator[dict[str, Any]]:
    rows = table_rows((f"{line}\n" for line in lines), source, _MAX_LINE_BYTES)
    names = next(filter(None, rows), [])
    for cells in filter(None, rows):
        yield dict(zip(names, cells, strict=True)) if len(cells) == len(names) else {}


def _text_field(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """`text`, or the field with most letters that are not those of an address."""
    letters: Counter[str] = Counter()
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str) and "://" not in value[:10]:
                letters[name] += sum(map(str.isalpha, value[:_JUDGED_CHARACTERS]))
    if letters["text"]:
        return "text"
    (name, most), *_ = letters.most_common(1) or [("", 0)]
    return name if most else None


def _read_head(file: InputFile, source: Source) -> tuple[list[Raw], list[Fault], float]:
    """Documents and faults of the head of a file, and the file's size in heads of this size.

    Readers read ahead: the documents of all bytes read so far are those before the next read.
    """
    num_read = 0

    def count(num_bytes: int) -> None:
        nonlocal num_read
        num_read += num_bytes

    documents: list[Raw] = []
    faults: list[Fault] = []
    full = 0
    for item in read_file(replace(file, on_read=count), source, _MAX_LINE_BYTES):
        if full and num_read > full:
            break
        if isinstance(item, Raw):
            documents.append(item)
        else:
            faults.append(item)
        full = full or (num_read if num_read >= _SAMPLE_BYTES else 0)
        if source.kind == "parquet" and len(documents) >= 10 * _FIELD_ROWS:
            break
    else:
        full = 0
    if source.kind == "parquet":  # it says itself how many rows it has
        with open_source(file) as opened, pq.ParquetFile(opened) as table:
            return documents, faults, table.metadata.num_rows / max(1, len(documents))
    return documents, faults, max(1.0, file.num_bytes / full) if full else 1.0


def _language_bytes(texts: Iterable[str]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for text in texts:
        head = text[:_JUDGED_CHARACTERS]
        if code := main_language(head):
            found[code] += len(head.encode("utf-8", "replace"))
    return {code: num_bytes for code, num_bytes in found.items() if _is_language(code)}


def _is_language(code: str) -> bool:
    """Whether a config may name it: a model has codes of its own for some languages."""
    try:
        return check_language(code) == code
    except ValueError:
        return False
