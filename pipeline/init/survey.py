"""What a folder of unknown text holds: its sources as a config names them, and about how much.

Heads of some files are read, evenly spread over the folder. What they hold stands for the rest.
"""

import glob
import os
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow.parquet as pq

from electrify.config.clean import Kind, Source
from electrify.stage.folder import PLAN, read_manifest
from electrify.stage.plan import VERBS
from electrify.storage.encodings import (
    guess_encoding,
    is_east_asian,
    marked_encoding,
    reads_lines_alone,
)
from electrify.storage.tables import (
    guess_delimiter,
    guess_dialect,
    has_cells,
    has_header,
    read_rows,
)
from electrify.system.outcome import UserError
from pipeline.rules.language import main_language
from pipeline.sources.files import LINK_TO_NOTHING, expand_sources, fault_of_name, files_below
from pipeline.sources.input_file import Fault, InputFile, Raw, packing, text_ending
from pipeline.sources.json_file import head_values, text_path
from pipeline.sources.lines import head_of, read_text_chunks
from pipeline.sources.readers import DAMAGES, KIND_OF_ENDING, REFUSED, UNREAD, describe, read_file
from pipeline.sources.stored import (
    ARCHIVES_WITHIN,
    is_archive,
    is_member,
    list_members,
    open_source,
    split_archive,
)
from pipeline.sources.tables import is_string

_IDEOGRAPHS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_COMBINED = (
    "\u0300-\u036f\u064b-\u0670\u0900-\u0963\u0966-\u0e4e"  # vowel signs, and what is between them
)
# about as BERT cuts
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|(?:[{_COMBINED}]|[^\W_{_IDEOGRAPHS}])+|[^\w\s]|_")
BYTES_A_TOKEN = 4  # of UTF-8: 3.8 to 4.7 in Korean, 4 in languages with Latin letters
_MAX_HEADS = 4  # files of a source that are read for the amount of its text
_MAX_SAMPLED = 50  # files of one ending
_MAX_EXAMINED = 200  # where those differ: at most so many sources come of it
_MAX_REASONS = 8  # why files of a source are not read
_MAX_SPLIT = 32  # parts that may differ in what one source can also mix
_SAMPLE_BYTES = 1_000_000  # of a file as it is stored
_MAX_LINE_BYTES = 20_000_000
_FIELD_ROWS = 100  # that tell which field holds the text
_MAX_JUDGED = 300  # documents of one ending whose language is asked for
_JUDGED_CHARACTERS = 4000
_MANY_FILES, _SMALL_FILE_BYTES = 20, 256_000  # of which each is a document
_PAGES = ("wet", "warc")  # whose encoding is not the config's
_MAX_OTHER_LANGUAGES = 8
OTHER_FRACTION = 0.02  # of the text, from which another language is no accident
# UTF-8 in which every line has a letter of three bytes or is ASCII, see `decode_line`
_READ_AS_UTF8 = ("en", "ja", "ko", "zh")
_LINES_A_BLOCK = 50  # at most, where blank lines are taken for boundaries of documents

T = TypeVar("T")


class TextAmount(NamedTuple):
    """What sources hold, estimated from the heads of some files of each."""

    num_bytes: float  # of the documents, as UTF-8
    num_words: float  # as a vocabulary is learnt from: each mark and ideograph is one
    num_documents: float

    @property
    def num_tokens(self) -> float:
        return self.num_bytes / BYTES_A_TOKEN


class FoundSource(NamedTuple):
    """A source, and what it holds; or a file, and what its head says."""

    source: Source
    num_files: int
    num_bytes: int  # as they are stored
    language_bytes: Mapping[str, int]  # of the documents whose language is known, among those read
    fields: tuple[str, ...]
    amount: TextAmount


def survey(root: Path) -> tuple[list[FoundSource], list[str]]:
    """The sources in a folder, or that a file is, and a line on each file or kind of file that is
    not read.

    Files of one ending are one source. Where they differ in kind, fields, encoding, language or
    what a document is, each group of files that agree is one, see `split`.

    Raises `ValueError` for a root that is not there.
    """
    if not root.exists():
        raise UserError(f"no file or folder at {root} (relative paths start at {Path.cwd()})")
    found_sources: list[FoundSource] = []
    sizes, unread = _files_of(root)
    # with that of the packing, ".jsonl.gz", and of the archive: its members are another source
    by_ending: dict[tuple[str, bool], list[Path]] = {}
    for path in sizes:
        packed = path.suffix if packing(path.name) else ""
        ending = Path(path.name.removesuffix(packed)).suffix + packed
        by_ending.setdefault((ending, is_member(str(path))), []).append(path)
    for (ending, is_packed), paths in by_ending.items():
        kind_ending = text_ending(str(paths[0]))
        if kind_ending in KIND_OF_ENDING:
            sources, reasons = _sources_of(root, ending, {path: sizes[path] for path in paths})
            found_sources += sources
            unread += reasons
        else:
            advice = (UNREAD | REFUSED).get(kind_ending, "unknown to every kind of source")
            if is_packed and is_archive(str(paths[0])):
                advice = ARCHIVES_WITHIN
            unread.append(f"{len(paths):,} {ending or 'without an ending'}: {advice}")
    return found_sources, unread


def amount_of(source: Source, output_dir: str | None = None) -> TextAmount:
    """The text of a source on this machine, by the heads of some of its files (`expand_sources`).

    `UserError` where they were read whole and none has a document.
    """
    sizes = {file.path: file.file_bytes for file in expand_sources([source], output_dir)}
    filled = [path for path, size in sizes.items() if size]
    heads = [InputFile(p, sizes[p], file_bytes=sizes[p]) for p in _spread(filled, _MAX_HEADS)]
    amounts, first_fault = [TextAmount(0, 0, 0)], ""
    is_whole = len(heads) == len(filled)
    for head in heads:
        try:
            documents, faults, share = read_head(head, source)
        except DAMAGES as error:  # one of several is left to `clean`
            first_fault = first_fault or f"{head.path}: {_reason(error)}"
            continue
        if faults and not documents:  # the longest says what the file looks like
            detail = max((fault.detail for fault in faults), key=len)
            first_fault = first_fault or f"{head.path}: {detail}"
        is_whole &= share == 1
        texts = [document.text for document in documents if document.text.strip()]
        if source.max_documents and texts:
            share = min(share, source.max_documents / len(texts))
        amounts.append(_amount_of_texts(texts, share))
    total = _scaled(amounts, sum(sizes.values()) / max(1, sum(head.num_bytes for head in heads)))
    if not any(total) and (first_fault or is_whole):
        raise UserError(first_fault or f"{source.path}: no text in it; give files with text")
    return total


def _amount_of_texts(texts: Sequence[str], share: float) -> TextAmount:
    """Of a file that is so many times as large as the head with these texts."""
    num_bytes = sum(len(text.encode("utf-8", "replace")) for text in texts)
    num_words = sum(len(_WORD.findall(text)) for text in texts)
    return TextAmount(share * num_bytes, share * num_words, share * len(texts))


def _scaled(amounts: Iterable[TextAmount], factor: float) -> TextAmount:
    """The sum of the amounts, times the factor."""
    return TextAmount(*(factor * sum(numbers) for numbers in zip(*amounts, strict=True)))


def _files_of(root: Path) -> tuple[dict[Path, int], list[str]]:
    """Bytes by path, members in the place of their archives, and why others are not read.

    What is hidden, and files without a byte, are left out.
    """
    sizes: dict[Path, int] = {}
    unread: list[str] = []
    for path in [root] if root.is_file() else _paths_below(root, unread):
        try:
            if fault := fault_of_name(str(path)):
                unread.append(fault)
            elif path.is_symlink() and not path.exists():
                unread.append(f"{path}: {LINK_TO_NOTHING}")
            elif not path.is_file() or not (num_bytes := path.stat().st_size):
                continue
            elif is_archive(str(path)):
                sizes |= {Path(name): size for name, size in list_members(str(path))}
            else:
                sizes[path] = num_bytes
        except (UserError, *DAMAGES) as error:
            unread.append(f"{path}: {_reason(error)}")
    return sizes, unread


def _paths_below(folder: Path, unread: list[str]) -> list[Path]:
    """In order, without what is hidden and the folders of runs; `unread` gets a line on each folder
    that cannot be read."""

    def is_shown(path: str) -> bool:
        return not os.path.basename(path).startswith(".")

    def is_entered(path: str) -> bool:
        return is_shown(path) and not _is_of_a_run(Path(path))

    paths = files_below(str(folder), is_entered, lambda error: unread.append(str(error)))
    return sorted(map(Path, filter(is_shown, paths)))


def _is_of_a_run(folder: Path) -> bool:
    """Whether it is the folder of a run, or of a stage, finished or not."""
    names = [name for stage in VERBS for name in (stage, f"{stage}.partial")]
    return any(map(_is_stage, (folder, *(folder / name for name in names))))


def _is_stage(folder: Path) -> bool:
    if folder.name.endswith(".partial"):
        return (folder / PLAN).is_file()
    try:
        read_manifest(folder)
    except (UserError, OSError):  # none, or that of another program
        return False
    return True


def _reason(error: Exception) -> str:
    """Why a file is not read; without the advice for a stage, which stops where `init` goes on."""
    if isinstance(error, UserError | PermissionError):
        return str(error.__cause__ or error)
    return f"damaged: {type(error).__name__}: {error}"


def _sources_of(
    root: Path, ending: str, sizes: Mapping[Path, int]
) -> tuple[list[FoundSource], list[str]]:
    paths = list(sizes)
    is_many = len(paths) >= _MANY_FILES and sum(sizes.values()) <= _SMALL_FILE_BYTES * len(paths)
    samples: dict[Path, FoundSource | str] = {}
    num_judged = max(2, _MAX_JUDGED // len(paths))
    for num_examined in (_MAX_SAMPLED, _MAX_EXAMINED):
        for path in _spread(paths, num_examined):
            if path not in samples and len(samples) < num_examined:
                samples[path] = _sample(path, sizes[path], is_many, num_judged)
        if len({*_options(samples, True).values()}) < 2:
            break
    parts = split(root, ending, paths, _options(samples, True))
    if len(parts) > _MAX_SPLIT:
        parts = split(root, ending, paths, _options(samples, False))
    sources: list[FoundSource] = []
    unread: list[str] = []
    unknown: list[Path] = []  # nothing is known about these files, and files beside them differ
    for part in parts:
        found = [samples[path] for path in part.files if path in samples]
        good = [sample for sample in found if isinstance(sample, FoundSource)]
        by_reason: dict[str, list[Path]] = {}
        for path in part.files:
            if isinstance(reason := samples.get(path), str):
                by_reason.setdefault(reason, []).append(path)
        for reason, bad in islice(by_reason.items(), _MAX_REASONS):
            others = f" and {len(bad) - 1:,} others" if len(bad) > 1 else ""
            unread.append(f"{bad[0]}{others}: {reason}")
        if more := [path for bad in islice(by_reason.values(), _MAX_REASONS, None) for path in bad]:
            unread.append(f"{len(more):,} more files, such as {more[0]}: {samples[more[0]]}")
        if good:
            num_bytes = sum(sizes[path] for path in part.files)
            name = _name_of(part.files) if is_many else None
            sources.append(_joined(good, part.path, len(part.files), num_bytes, name))
        else:
            unknown += [path for path in part.files if path not in samples]
    if unknown:
        unread.append(
            f"{len(unknown):,} {ending}, such as {unknown[0]}: not examined, and files beside them "
            "differ: sort files of one kind, encoding and set of fields into folders of their own"
        )
    return sources, unread


def _name_of(paths: Sequence[Path]) -> str:
    """That of the archive or of the folder in which all files stand."""
    places = [split_archive(str(path))[0] or str(path.parent) for path in paths]
    name = Path(os.path.commonpath(places)).name
    return name.removesuffix(".zip")


def _spread(items: Sequence[T], most: int) -> list[T]:
    """At most so many of the items, evenly spaced."""
    if len(items) <= most:
        return list(items)
    return [items[index * len(items) // most] for index in range(most)]


def _options(
    samples: Mapping[Path, FoundSource | str], is_strict: bool
) -> dict[Path, tuple[Any, ...]]:
    """By path the options of the source that reads a file: files may share one if theirs are equal.

    Strict ones have the language and what a document is, which one source can also mix.
    """
    options: dict[Path, tuple[Any, ...]] = {}
    alike: dict[tuple[Any, ...], list[FoundSource]] = {}
    for path, sample in samples.items():
        if isinstance(sample, FoundSource):
            source = sample.source
            options[path] = source.kind, source.text_field, source.columns
            alike.setdefault(options[path], []).append(sample)
    for path, form in options.items():
        sample = samples[path]
        assert isinstance(sample, FoundSource)
        languages = Counter(one.source.language for one in alike[form] if one.language_bytes)
        usual, _ = (*languages.most_common(1), (sample.source.language, 0))[0]
        language = sample.source.language if sample.language_bytes else usual
        encoding = sample.source.encoding
        others = {one.source.encoding for one in alike[form]} - {"utf-8"}
        if encoding == "utf-8" and len(others) == 1:  # lines that are UTF-8 are read so beside it
            (other,) = others
            is_safe = language in _READ_AS_UTF8 or not is_east_asian(other)
            encoding = other if is_safe and reads_lines_alone(other) else encoding
        options[path] = *form, encoding
        if is_strict:
            options[path] += language, sample.source.document
    unread = {path: () for path, sample in samples.items() if isinstance(sample, str)}
    return options | unread if is_strict else options


def _joined(
    samples: Sequence[FoundSource], pattern: str, num_files: int, num_bytes: int, name: str | None
) -> FoundSource:
    """One source for all samples, which may share one (`_options`). A document is what it is in
    most of their text."""
    documents: Counter[Any] = Counter()
    languages: Counter[str] = Counter()
    for sample in samples:
        documents[sample.source.document] += sample.num_bytes
        languages.update(sample.language_bytes)
    encodings = {sample.source.encoding for sample in samples} - {"utf-8"}
    first = samples[0].source
    ordered = languages.most_common()
    others = tuple(code for code, size in ordered[1:] if size >= OTHER_FRACTION * languages.total())
    is_any = len(others) > _MAX_OTHER_LANGUAGES
    source = first.model_copy(
        update={
            "path": pattern,
            "name": name,
            "encoding": min(encodings, default="utf-8"),  # one at most; UTF-8 is read beside it
            "document": documents.most_common(1)[0][0],
            "language": "auto" if is_any else ordered[0][0] if ordered else first.language,
            "other_languages": () if is_any else others,
        }
    )
    fields = tuple(dict.fromkeys(field for sample in samples for field in sample.fields))
    num_sampled = sum(sample.num_bytes for sample in samples)
    amount = _scaled((sample.amount for sample in samples), num_bytes / num_sampled)
    if source.document == "file":
        amount = amount._replace(num_documents=num_files)
    return FoundSource(source, num_files, num_bytes, languages, fields, amount)


def _sample(path: Path, num_bytes: int, is_document: bool, num_judged: int) -> FoundSource | str:
    """What the head of a file holds, or why it is not read."""
    file = InputFile(str(path), num_bytes, file_bytes=num_bytes)
    try:
        source, fields = _described(file, is_document)
        documents, faults, share = read_head(file, source)
    except (UserError, *DAMAGES) as error:
        return _reason(error)
    texts = [document.text for document in documents]
    if not any(map(str.strip, texts)):
        return faults[0].detail if faults else "no text in it"
    language_bytes: Counter[str] = Counter()
    for text in _spread(texts, num_judged):
        head = text[:_JUDGED_CHARACTERS]
        if code := main_language(head):
            language_bytes[code] += len(head.encode("utf-8", "replace"))
    language = max(language_bytes, key=language_bytes.__getitem__, default="en")
    source = source.model_copy(update={"language": language})
    amount = _amount_of_texts(texts, share)
    return FoundSource(source, 1, num_bytes, language_bytes, fields, amount)


def _described(file: InputFile, is_document: bool) -> tuple[Source, tuple[str, ...]]:
    """A source for a file, and the names of its fields; `UserError` says why there is none."""
    kind = KIND_OF_ENDING[text_ending(file.path)]
    raw_head = b"" if kind in ("parquet", *_PAGES) else head_of(file)
    if kind == "wikipedia" and b"<mediawiki" not in raw_head:
        raise UserError("XML, but no dump of Wikipedia: write its text out, one JSON object a line")
    options: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []  # of kinds that have fields
    if kind == "parquet":
        rows = _parquet_rows(file)
    elif kind not in ("wikipedia", *_PAGES):
        encoding = "utf-8" if marked_encoding(raw_head) else guess_encoding(raw_head)
        head = read_text_chunks(file, encoding)[0]
        text = head.decode("utf-8", "replace").removeprefix("\ufeff")
        kind = _kind_of_text(kind, text)
        options["encoding"] = encoding
        if kind == "text":
            # blocks where blank lines stand often enough, else lines
            whole = text.replace("\r\n", "\n").strip()
            num_blocks = len(re.findall(r"\n[ \t]*\n\s*", whole)) + 1
            has_blocks = 1 < num_blocks >= whole.count("\n") / _LINES_A_BLOCK
            options["document"] = "file" if is_document else "block" if has_blocks else "line"
        elif kind == "jsonl":
            values, is_one = head_values(head)
            rows = [value for value in values if isinstance(value, dict)]
            if not rows:
                looks = describe(raw_head, kind, encoding, path=file.path)
                raise UserError(looks or "no JSON objects in it")
            options["text_field"] = text_path(rows, is_one)
        elif cells := _cells(text, kind):
            columns = [f"column{n + 1}" for n in range(len(cells[0]))]
            if (is_header := has_header(cells)) is None:
                raise UserError(
                    "does its first row name the columns, or is it data? It is: "
                    f"{' | '.join(cells[0])[:200]}. Put a row of names above it, or write the "
                    f"source yourself, where it is data with columns = {columns}"
                )
            columns = [] if is_header else columns
            options["columns"] = tuple(columns)
            names = columns or [cell.strip() for cell in cells[0]]
            rows = [dict(zip(names, row, strict=False)) for row in cells[is_header:]]
    if rows and options.setdefault("text_field", text_path(rows, is_file=False)) is None:
        there = ", ".join([*rows[0]][:5])
        raise UserError(f"no field with text (there are: {there}); documents by id need a row each")
    source = Source(kind=kind, language="en", path=file.path, **options)
    return source, tuple(dict.fromkeys(field for row in rows for field in row))


def _kind_of_text(kind: Kind, text: str) -> Kind:
    """Text files hold JSON and tables with tabs, too, as "Unicode text" of spreadsheets."""
    if kind != "text":
        return kind
    if text.lstrip()[:1] in ("{", "[") and isinstance((*head_values(text.encode())[0], 0)[0], dict):
        return "jsonl"
    cells = _cells(text, "tsv") if "\t" in text.partition("\n")[0] else []
    is_table = len(cells) > 2 and len(cells[0]) > 1 and len({*map(len, cells)}) == 1
    return "tsv" if is_table and guess_delimiter(text, default="\t") == "\t" else "text"


def _cells(text: str, kind: Kind) -> list[list[str]]:
    """The rows at the head of a table, without blank ones; the last may be cut."""
    delimiter, escape = guess_dialect(text, default="," if kind == "csv" else "\t")
    rows = read_rows((f"{line}\n" for line in text.split("\n")), delimiter, escape=escape)
    whole = (row for _, row in rows if isinstance(row, list) and has_cells(row))
    return list(islice(whole, _FIELD_ROWS))


def _parquet_rows(file: InputFile) -> list[dict[str, Any]]:
    """The texts of the first rows: not each value of another type has one in Python, as far dates.

    Of the other columns only the names.
    """
    with open_source(file) as opened, pq.ParquetFile(opened) as table:
        schema = table.schema_arrow
        texts = [name for name in schema.names if is_string(schema.field(name).type)]
        for batch in table.iter_batches(batch_size=_FIELD_ROWS, columns=texts):
            return [dict.fromkeys(schema.names) | row for row in batch.to_pylist()]
    return []


def read_head(file: InputFile, source: Source) -> tuple[list[Raw], list[Fault], float]:
    """Documents and faults of the head of a file, and the file's size in heads of this size.

    Readers read ahead: the documents of all bytes read so far are those before the next read.
    """
    num_read = full = 0

    def count(num_bytes: int) -> None:
        nonlocal num_read
        num_read += num_bytes

    items: list[Raw | Fault] = []
    is_whole = True
    for item in read_file(replace(file, on_read=count), source, _MAX_LINE_BYTES):
        is_enough = source.kind == "parquet" and len(items) >= 10 * _FIELD_ROWS
        if is_enough or (full and num_read > full):
            is_whole = False
            break
        items.append(item)
        full = full or (num_read if num_read >= _SAMPLE_BYTES else 0)
    documents = [item for item in items if isinstance(item, Raw)]
    faults = [item for item in items if isinstance(item, Fault)]
    if source.kind == "parquet":  # it says itself how many rows it has
        with open_source(file) as opened, pq.ParquetFile(opened) as table:
            return documents, faults, table.metadata.num_rows / max(1, len(items))
    return documents, faults, 1.0 if is_whole else max(1.0, file.num_bytes / full)


# Files that one source may read together, and the path that names exactly these files.


class Part(NamedTuple):
    """Files of one ending whose options agree; `path` is a glob, or that of a single file."""

    path: str
    files: Sequence[Path]


def split(
    folder: Path, ending: str, paths: Sequence[Path], options: Mapping[Path, Hashable]
) -> list[Part]:
    """All files below a folder, in the order of their paths: together where the known options of
    all agree, else by the folders in it, and file by file right in it."""
    if len(paths) == 1 or len({options[path] for path in paths if path in options}) < 2:
        return [Part(_pattern(folder, ending, paths), paths)]
    below: dict[Path, list[Path]] = {}
    for path in paths:
        below.setdefault(_child(folder, path), []).append(path)
    parts: list[Part] = []
    for child, inner in below.items():
        is_file = inner == [child]
        parts += [Part(_single(child), inner)] if is_file else split(child, ending, inner, options)
    return sorted(parts, key=lambda part: part.files[0])


def _child(folder: Path, path: Path) -> Path:
    """The file, archive or folder right below a folder, which may be an archive or a folder in one,
    in which a file stands."""
    archive, member = split_archive(str(path))
    if Path(archive) == folder:
        return Path(f"{archive}::{member.partition('/')[0]}")
    stored = path if is_member(str(folder)) else Path(archive or path)
    return folder / stored.relative_to(folder).parts[0]


def _pattern(folder: Path, ending: str, paths: Sequence[Path]) -> str:
    """A glob for the files of a folder, or the path of a single one."""
    if len(paths) == 1:
        return _single(paths[0])
    if is_member(str(folder)):
        archive, below = map(glob.escape, split_archive(str(folder)))
        return f"{archive}::{below}/*{ending}"
    files = [Path(split_archive(str(path))[0] or path) for path in paths]
    if len({*files}) == 1:  # an archive with several members
        return f"{glob.escape(str(files[0]))}::*{ending}"
    is_flat = all(file.parent == folder for file in files)
    members = f"{files[0].suffix}::*" if is_member(str(paths[0])) else ""
    return f"{glob.escape(str(folder))}/{'' if is_flat else '**/'}*{members}{ending}"


def _single(path: Path) -> str:
    """A path that matches one file. A local name may hold a star; that of a member is a pattern."""
    archive, member = split_archive(str(path))
    return f"{archive}::{glob.escape(member)}" if archive else str(path)
