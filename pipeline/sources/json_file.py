"""JSON: an object a line, also with the brackets and commas of a list, or objects over many lines.

`text_field` may be a path: dots lead into objects, and the texts of a list are lines of one
document. Of the first list that is marked `[]`, each element is a document of its own.
"""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import orjson
from pydantic_core import from_json

from electrify.config.clean import DEFAULT_ID_FIELD, Source
from pipeline.sources.input_file import (
    Fault,
    InputFile,
    Raw,
    TooLong,
    bad_row,
    encoding_fault,
    too_long,
)
from pipeline.sources.lines import CHUNK_BYTES, read_lines, read_text_chunks, read_text_lines

_BETWEEN = re.compile(r"[\s,\[\]\x1e\ufeff]*")  # the values of a file: lists are opened
_SPACE = re.compile(r"[\s,]*")
_LOST = re.compile("[\udc80-\udcff]")  # bytes that are no UTF-8
_DECODER = json.JSONDecoder()
_HEAD_VALUES = 100  # that tell which field holds the text
_JUDGED_CHARACTERS = 4000
_MAX_FIELDS = 9  # of a document that is a file: the fields of a larger object may be documents


@dataclass(frozen=True)
class TextPath:
    """Where the text of a document stands in a value of a file."""

    keys: tuple[str, ...]
    list_keys: tuple[str, ...] | None = None  # of the list whose elements are documents

    @classmethod
    def parse(cls, name: str) -> "TextPath":
        """The path that `text_field` names; a first `[].` is the list that the file is."""
        before, mark, after = name.removeprefix("[].").partition("[]")
        if not mark:
            return cls(tuple(before.split(".")))
        keys = after.replace("[]", "").split(".")
        return cls(tuple(filter(None, keys)), tuple(before.split(".")))


def read_json(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """The documents of a file, or of its part.

    The row is the line. In a file whose objects take many lines, and where an object has many
    documents, rows count the documents.
    """
    path = TextPath.parse(source.text_field)
    items: Iterator[Raw | Fault]
    if file.num_parts > 1:
        lines = read_text_lines(file, source.encoding, max_line_bytes)
        items = _read_lines(lines, source, path, max_line_bytes)
    else:
        head, chunks = read_text_chunks(file, source.encoding)
        if is_object_a_line(head, path):
            items = _read_lines(read_lines(chunks, max_line_bytes), source, path, max_line_bytes)
        else:
            items = _read_values(_Scanner(chunks, max_line_bytes), source, path)
    if path.list_keys is None:
        yield from items
    else:
        yield from (replace(item, row=row) for row, item in enumerate(items, start=1))


def is_object_a_line(head: bytes, path: TextPath) -> bool:
    """Whether the lines of a file are read one by one, by its head."""
    lines = head.removeprefix(codecs.BOM_UTF8).split(b"\n")
    first = next(filter(None, map(_undecorated, lines)), b"")
    with suppress(ValueError):
        if isinstance(json_value(first), dict):
            return True
    if len(lines) == 1 and len(head) >= CHUNK_BYTES:  # the first of many objects, or the only one
        return not head.lstrip().startswith(b"[") and path.list_keys is None
    text = head.decode("utf-8", "surrogateescape")
    return not isinstance(_value_at(text, 0, len(head) >= CHUNK_BYTES)[0], dict)


def _undecorated(line: bytes) -> bytes:
    """A line of a list without its comma and the list's brackets; empty where that is all."""
    line = line.strip().removeprefix(codecs.BOM_UTF8)  # of files that were joined
    inner = line.strip(b"[], \t")
    return inner if inner.startswith(b"{") or (not inner and len(line) < 4) else line


def _read_lines(
    lines: Iterable[tuple[int, bytes | TooLong]], source: Source, path: TextPath, max_bytes: int
) -> Iterator[Raw | Fault]:
    for row, (offset, line) in enumerate(lines, start=1):
        if isinstance(line, TooLong):
            yield replace(too_long(row, line, max_bytes), offset=offset)
        elif inner := _undecorated(line):
            try:
                items = _documents(row, json_value(inner), source, path)
            except UnicodeDecodeError as bad:
                items = iter([Fault(row, *encoding_fault(bad, source))])
            except ValueError as error:
                items = iter([Fault(row, "malformed_json", str(error))])
            for item in items:
                if isinstance(item, Fault):
                    fault = bad_row(row, item.reason, item.detail, line)
                    item = replace(fault, offset=offset, source_id=item.source_id)
                yield item


def json_value(line: bytes) -> Any:
    """What a line of JSON holds; `ValueError` for what is no JSON, or no UTF-8.

    json.loads also takes lone surrogates ("\\ud83d") and NaN, which json.dumps writes.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            return json.loads(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise
        except (ValueError, RecursionError):
            raise error from None


# Objects over many lines, read value by value.


def _read_values(scanner: "_Scanner", source: Source, path: TextPath) -> Iterator[Raw | Fault]:
    num_rows = 0
    items: Iterator[Raw | Fault]
    try:
        while first := scanner.peek(_BETWEEN):
            if first == "{" and path.list_keys is not None:
                elements = scanner.elements(path.list_keys)
                items = (_document(0, element, source, path.keys) for element in elements)
            else:
                items = _documents(0, scanner.value(), source, path)
            for item in items:
                num_rows += 1
                if isinstance(item, Raw) and _LOST.search(item.text):
                    data = item.text.encode("utf-8", "replace")
                    item = bad_row(0, "invalid_utf8", "bytes that are not UTF-8", data)
                yield replace(item, row=num_rows)
    except _NoJsonError as error:
        yield Fault(num_rows + 1, "unreadable_file", str(error))


class _NoJsonError(ValueError):
    """The file is no JSON from some character on. A storage that fails has errors of its own."""


class _Scanner:
    """The values of JSON text, of which no more than one is in memory."""

    def __init__(self, chunks: Iterator[bytes], max_bytes: int) -> None:
        self._chunks, self._max_bytes = chunks, max_bytes
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._text, self._offset, self._read_before = "", 0, 0

    def peek(self, skipped: "re.Pattern[str]") -> str:
        """The next character that is not skipped; empty at the end."""
        while True:
            match = skipped.match(self._text, self._offset)
            self._offset = match.end() if match else self._offset
            if self._offset < len(self._text):
                return self._text[self._offset]
            if not self._read():
                return ""

    def value(self) -> Any:
        """The value that begins here; `_NoJsonError` for what is none, or too long."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._offset)
            except (ValueError, RecursionError) as error:
                if len(self._text) - self._offset > self._max_bytes:
                    raise _NoJsonError(
                        f"a JSON value of more than clean.max_line_bytes = {self._max_bytes:,} "
                        f"begins at character {self._read_before + self._offset:,}"
                    ) from None
                if not self._read():
                    where = self._read_before + getattr(error, "pos", self._offset)
                    what = getattr(error, "msg", "nested too deeply")
                    raise _NoJsonError(f"no JSON at character {where:,}: {what}") from None
            else:
                self._offset = end
                return value

    def elements(self, keys: Sequence[str]) -> Iterator[Any]:
        """The elements of the lists at `keys` of the object that begins here.

        A value that is no list is an element itself; a `Fault` stands for those that are not there.
        """
        self._take("{")
        names: list[str] = []
        while self.peek(_SPACE) not in ("}", ""):
            names.append(str(self.value()))
            self.peek(_SPACE)
            self._take(":")
            first = self.peek(_SPACE)
            if names[-1] != keys[0]:
                self.value()
            elif first == "[":
                self._take("[")
                while self.peek(_SPACE) not in ("]", ""):
                    yield from self._below(keys[1:])
                self._take("]")
            else:
                yield from self._below(keys[1:])
        self._take("}")
        if keys[0] not in names:
            yield Fault(0, "missing_field", _missing(keys[0], names))

    def _below(self, keys: Sequence[str]) -> Iterator[Any]:
        if keys and self.peek(_SPACE) == "{":
            yield from self.elements(keys)
        else:
            yield self.value()

    def _take(self, character: str) -> None:
        if self.peek(_SPACE) != character:
            offset = self._read_before + self._offset
            raise _NoJsonError(f"no JSON at character {offset:,}: {character!r} is missing")
        self._offset += 1

    def _read(self) -> bool:
        """Read on, twice as much as waits: a long value is tried again; False at the end."""
        wanted = max(1, len(self._text) - self._offset)
        pieces = [self._text[self._offset :]]
        self._read_before += self._offset
        self._offset = 0
        num_read = 0
        while num_read < wanted and (chunk := next(self._chunks, None)) is not None:
            pieces.append(self._decode(chunk))
            num_read += len(pieces[-1])
        self._text = "".join(pieces)
        return num_read > 0


# From a value to its documents.


def _documents(row: int, value: Any, source: Source, path: TextPath) -> Iterator[Raw | Fault]:
    if not isinstance(value, dict):
        yield Fault(row, "malformed_json", f"a {type(value).__name__}, not an object")
    elif source.text_field in value:
        yield _document(row, value, source, (source.text_field,))
    elif path.list_keys is None:
        yield _document(row, value, source, path.keys)
    elif elements := list(_values_at(value, path.list_keys)):
        yield from (_document(row, element, source, path.keys) for element in elements)
    else:
        yield Fault(row, "missing_field", _missing(".".join(path.list_keys), value))


def _document(row: int, value: Any, source: Source, keys: Sequence[str]) -> Raw | Fault:
    if isinstance(value, Fault):
        return value
    if not isinstance(value, dict):
        value, keys = {source.text_field: value}, (source.text_field,)
    return take_fields(row, value, source, keys)


def _values_at(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    """The values at a path, lists gone through."""
    if isinstance(value, list):
        for element in value:
            yield from _values_at(element, keys)
    elif not keys:
        yield value
    elif isinstance(value, dict) and keys[0] in value:
        yield from _values_at(value[keys[0]], keys[1:])


def _missing(name: str, names: Iterable[str]) -> str:
    return f"no field {name!r} (there are: {', '.join(islice(names, 20))})"


def take_fields(
    row: int, value: Mapping[str, Any], source: Source, keys: Sequence[str] = ()
) -> Raw | Fault:
    """The document that a row's fields make; the text is at `keys`, else at `source.text_field`."""
    name = source.text_field
    source_id = id_of(value, source)

    def fault(reason: str, detail: str) -> Fault:
        return Fault(row, reason, detail, source_id=source_id)

    keys = keys or (name,)
    text = value.get(keys[0])
    is_plain = isinstance(text, str) and len(keys) == 1
    values = [text] if is_plain else list(_values_at(value, keys))
    for field in source.fields:  # a row that names no language has that of its text
        if field not in (name, source.language_field) and field not in value:
            return fault("missing_field", _missing(field, value))
    if not values:
        return fault("missing_field", _missing(name, value))
    texts = [text for text in values if text is not None]
    if wrong := [text for text in texts or values if not isinstance(text, str)]:
        return fault("wrong_type", f"field {name!r} is {type(wrong[0]).__name__}, not a string")
    licence = _string(value, "licence") or _string(value, "license")
    named, url = (_string(value, field) for field in ("source", "url"))
    language = _string(value, source.language_field) if source.language_field else None
    return Raw(row, "\n".join(texts), named, url, licence, source_id, language)


def id_of(fields: Mapping[str, Any], source: Source) -> str | None:
    """The id that a row has, if it is a string or an integer."""
    value = fields.get(source.id_field or DEFAULT_ID_FIELD)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value or None if isinstance(value, str) else None


def _string(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) and value else None


# What JSON holds that nobody has described.


def head_values(head: bytes) -> tuple[list[Any], bool]:
    """The first values of a file, and whether the file is one object.

    A value that is longer than the head is closed where the head ends.
    """
    text = head.decode("utf-8", "surrogateescape").rstrip()
    values: list[Any] = []
    offset = 0
    while offset < len(text) and len(values) < _HEAD_VALUES:
        value, end = _value_at(text, offset, may_be_cut=not offset and len(head) >= CHUNK_BYTES)
        values += [] if value is None else [value]
        offset = end if value is not None else text.find("\n", end) + 1 or len(text)
    is_alone = len(values) == 1 and offset >= len(text)
    return values, is_alone and text.lstrip("\ufeff\n\r\t ").startswith("{")


def _value_at(text: str, offset: int, may_be_cut: bool) -> tuple[Any, int]:
    """The value that begins here, after what may stand between values, and where it ends; None and
    where it would begin if there is none."""
    match = _BETWEEN.match(text, offset)
    offset = match.end() if match else offset
    try:
        return _DECODER.raw_decode(text, offset)
    except (ValueError, RecursionError):
        if not may_be_cut:
            return None, offset
    try:
        return from_json(text[offset:].encode("utf-8", "ignore"), allow_partial=True), len(text)
    except ValueError:
        return None, offset


def text_path(values: Sequence[Any], is_file: bool) -> str | None:
    """`text`, or the path with most letters that are not those of an address; None without text.

    Of a value that `is_file`, documents are the elements of the first list on the way; there is no
    path in one of many fields without a list, which may be documents by id.
    """
    letters: Counter[str] = Counter()
    for path, text in (pair for value in values for pair in _texts(value, is_file)):
        if "://" not in text[:10]:
            letters[path] += sum(map(str.isalpha, text[:_JUDGED_CHARACTERS]))
    if letters["text"]:
        return "text"
    (name, most), *_ = letters.most_common(1) or [("", 0)]
    has_many = is_file and "[]" not in name and any(len(v) > _MAX_FIELDS for v in values)
    return name if most and not has_many else None


def _texts(value: Any, is_file: bool, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and text; lists of words are left out."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            is_list = is_file and isinstance(inner, list)
            inner_path = f"{path}.{key}".removeprefix(".") + "[]" * is_list
            yield from _texts(inner, is_file and not is_list, inner_path)
    elif isinstance(value, list):
        is_text = any(not isinstance(one, str) or len(one.split()) > 1 for one in value)
        for element in value if is_text else ():
            yield from _texts(element, is_file, path)
