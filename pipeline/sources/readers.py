"""Documents of one raw file, of any kind and size, in bounded memory; which kind a file looks like.

A row that cannot be read is yielded as a `Fault`, never passed over in silence. A storage that
fails is no fault of the data: it raises `UserError`.
"""

import codecs
import csv
import lzma
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import ParseError

import pyarrow as pa

from electrify.config.clean import Kind, Source
from electrify.storage.encodings import guess_encoding, is_utf8
from electrify.storage.tables import guess_delimiter
from pipeline.sources.hub import read_huggingface
from pipeline.sources.input_file import Fault, InputFile, Raw, packing
from pipeline.sources.json_file import head_values, read_json, text_path
from pipeline.sources.lines import head_of, read_text
from pipeline.sources.stored import DAMAGED_ARCHIVE
from pipeline.sources.tables import read_csv, read_parquet
from pipeline.sources.web import read_warc, read_wet
from pipeline.sources.wikipedia import read_wikipedia

# What the contents of a file raise. UnicodeDecodeError: names of columns; MemoryError: a damaged
# size that nobody can allocate
DAMAGES = (
    OSError,
    EOFError,
    csv.Error,
    lzma.LZMAError,
    *DAMAGED_ARCHIVE,
    pa.ArrowException,
    ParseError,
    UnicodeDecodeError,
    MemoryError,
)
_HEAD_ROWS = 100
_UNREADABLE, _MISSING = "unreadable_file", "missing_field"
_ENCODING = ("invalid_utf8", "wrong_encoding")
# what the rows of a file of another kind have
STRUCTURAL = ("malformed_json", "malformed_row", *_ENCODING)
# A few bad rows are usual; so many in another encoding are not an accident.
_ENCODING_FRACTION, _ENCODING_ROWS = 0.1, 5

_READERS: dict[str, Callable[[InputFile, Source, int], Iterator[Raw | Fault]]] = {
    "jsonl": read_json,
    "text": read_text,
    "csv": read_csv,
    "tsv": read_csv,
    "parquet": read_parquet,
    "wikipedia": read_wikipedia,
    "huggingface": read_huggingface,
    "wet": read_wet,
    "warc": read_warc,
}


def read_file(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """The documents of one file in order, at most `source.max_documents`, and its faults.

    A damaged file ends with a fault (`unreadable_file`) in place of its remaining rows. A text
    document is then given up if it was not yet at its end. Raises `UserError` where the storage or
    the hub fails.
    """
    rows = _until_unreadable(file, source, max_line_bytes)
    rows = _refuse_other_kinds(rows, file, source)
    num_documents = 0
    for item in rows:
        yield item
        num_documents += isinstance(item, Raw)
        if num_documents == source.max_documents:
            return


def _until_unreadable(
    file: InputFile, source: Source, max_line_bytes: int
) -> Iterator[Raw | Fault]:
    row = file.first_row
    try:
        for item in _READERS[source.kind](file, source, max_line_bytes):
            row = item.row
            yield item
    except DAMAGES as error:
        yield Fault(row + 1, _UNREADABLE, f"{type(error).__name__}: {error}")


def _refuse_other_kinds(
    rows: Iterator[Raw | Fault], file: InputFile, source: Source
) -> Iterator[Raw | Fault]:
    """Where most of the first rows are bad, or of all, one fault says so, and what the file looks
    like. So it is where all blocks of a text are too long, but for a text of one line."""
    reasons: Counter[str] = Counter()
    num_rows = row = 0
    first: Fault | None = None
    is_checked = is_refused = False
    for item in rows:
        num_rows, row = num_rows + 1, item.row
        if isinstance(item, Fault):
            first = first or item
            reasons[item.reason] += 1
            if item.reason == _UNREADABLE or source.document == "file":
                is_refused = True  # of many small files a few may be bad
                if num_rows == 1 or item.reason != _UNREADABLE:
                    item = replace(item, detail=item.detail + _looks(file, source))
            elif num_rows >= _HEAD_ROWS and not is_checked:
                is_checked = True
                if is_refused := _is_other_kind(file, reasons, num_rows):
                    detail = _refusal(file, source, reasons, num_rows, first)
                    item = replace(item, reason=_UNREADABLE, detail=detail)
        yield item
    if first is None or is_refused:
        return
    is_all_long = source.kind == "text" and reasons["line_too_long"] == num_rows
    if _is_other_kind(file, reasons, num_rows) or (is_all_long and b"\n" in head_of(file)):
        yield Fault(row + 1, _UNREADABLE, _refusal(file, source, reasons, num_rows, first))


def _is_other_kind(file: InputFile, reasons: Counter[str], num_rows: int) -> bool:
    num_structural = sum(reasons[reason] for reason in STRUCTURAL)
    num_encoding = sum(reasons[reason] for reason in _ENCODING)
    return (
        2 * num_structural > num_rows
        or num_encoding >= max(_ENCODING_ROWS, _ENCODING_FRACTION * num_rows)
        or (reasons[_MISSING] == num_rows and not file.part)  # a field may end within a file
    )


def _refusal(
    file: InputFile, source: Source, reasons: Counter[str], num_rows: int, first: Fault
) -> str:
    num_bad, place = reasons.total(), file.where(first.row, first.offset)
    return (
        f"{num_bad:,} of {num_rows:,} rows cannot be read, the first {place}: {first.reason}: "
        f"{first.detail}{_looks(file, source)}"
    )


def _looks(file: InputFile, source: Source) -> str:
    try:
        head, language = head_of(file), source.language
        what = describe(head, source.kind, source.encoding, language, file.path)
    except DAMAGES:
        what = ""
    return f". The file looks like {what}" if what else ""


# What files look like: the kind of source that reads them, or what to do with them.

_FORMATS = tomllib.loads(Path(__file__).with_name("formats.toml").read_text(encoding="utf-8"))


def _by_ending(advice: Mapping[str, str]) -> dict[str, str]:
    return {ending: what for endings, what in advice.items() for ending in endings.split()}


KIND_OF_ENDING: dict[str, Kind] = {
    ending: kind for kind, endings in _FORMATS["kinds"].items() for ending in endings
}
REFUSED, UNREAD = _by_ending(_FORMATS["refused"]), _by_ending(_FORMATS["unread"])
_BEGINNINGS: list[tuple[bytes, str]] = [
    *((bytes.fromhex(start), what) for start, what in _FORMATS["beginnings"]["hex"]),
    *((start.encode(), what) for start, what in _FORMATS["beginnings"]["text"]),
]
_PACKED = "a packed file"
_SAMPLE_BYTES = 1 << 16

_JSON_OBJECT = re.compile(r"[\s\[]*\{\s*[\"']")


def describe(
    head: bytes, kind: str = "", encoding: str = "utf-8", language: str = "", path: str = ""
) -> str:
    """What the head of a file, read as `kind`, looks like, and what to do; empty if nothing. Of the
    file at a `path` it is the head as unpacked."""
    if not head:
        return ""
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()[:100].lower()
    for beginning, what in _BEGINNINGS:
        if start.startswith(beginning.lower()) or head.startswith(beginning):
            if packing(path) and what.startswith(_PACKED):
                return REFUSED[packing(path)]
            return "" if f'"{kind}"' in what else what
    guess = guess_encoding(head, language)
    if guess != encoding and not (is_utf8(guess) and is_utf8(encoding)):
        return f"text in {guess}: write encoding = {guess!r}"
    text = head.decode(guess, "replace")
    if text.lstrip("\ufeff \r\n\t")[:1] in ("{", "["):
        values, is_one = head_values(text.encode("utf-8", "surrogatepass"))
        if values and isinstance(values[0], str):
            return 'a list of texts: write an object for each, {"text": ...}'
        if values and (field := text_path(values, is_one)) is None:
            return "JSON without text"
        if values:
            what = "JSON" if kind == "jsonl" else 'JSON: write kind = "jsonl" and'
            return f"{what} with text at text_field = {field!r}"
        if _JSON_OBJECT.match(text):  # broken: its commas make no table
            return ""
    delimiter = guess_delimiter(text[:_SAMPLE_BYTES])
    if kind not in ("csv", "tsv") and delimiter in text.partition("\n")[0]:
        return f'a table with {delimiter!r} between its cells: write kind = "csv"'
    is_text = all(c.isprintable() or c.isspace() for c in text[:1000])
    return 'text: write kind = "text"' if kind not in ("text", "csv", "tsv") and is_text else ""
