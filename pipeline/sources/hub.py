"""Data sets of the Hugging Face hub, and folders that `save_to_disk` wrote, read as a stream."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import fsspec

from electrify.config.clean import DEFAULT_ID_FIELD, Source
from electrify.stage.folder import digest_of, fingerprint
from electrify.system.outcome import UserError
from pipeline.sources.input_file import MAX_PART_BYTES, InputFile
from pipeline.sources.json_file import take_fields
from pipeline.sources.raw import HEAD_BYTES, Fault, Raw, TooLong, too_long
from pipeline.sources.tables import read_arrow


def hub_files(source: Source, where: str) -> list[InputFile]:
    """The Arrow files of a saved folder, or the shards of a data set.

    `max_documents` counts through a data set's shards, so it then comes whole. Raises `ValueError`
    for a data set, subset, split or field that is not there, and where the hub is not reached.
    """
    if saved := _saved_files(source, where):
        return saved
    if "://" in source.path:
        raise UserError(f"{where} is no folder that save_to_disk wrote (no state.json in it)")
    if source.path.startswith(("/", ".", "~")) and not Path(source.path).is_dir():
        raise UserError(f"{where}: no such folder (relative paths start at {Path.cwd()})")
    try:
        builder = _load_builder(source.path, source.name, None)
        rows = builder.as_streaming_dataset(source.split)
        columns, num_shards = rows.column_names, rows.num_shards
        revision = _revision(builder, source.split)
    except Exception as error:  # of the network, the hub, the data set's files: all kinds
        raise UserError(f"{where} cannot be opened: {_explain(error)}") from error
    for field in (source.text_field, source.thread_field, source.id_field):
        if columns is not None and field is not None and field not in columns:
            raise UserError(f"{where} has no field {field!r} (there are: {', '.join(columns)})")
    num_parts = 1 if source.max_documents or source.thread_field else num_shards
    known = (builder.info.splits or {}).get(source.split)
    num_bytes = known.num_bytes // num_parts if known and known.num_bytes else MAX_PART_BYTES
    file = InputFile(
        source.path, num_bytes, 0, 0, num_parts=num_parts, label=_label(source), revision=revision
    )
    return [replace(file, part=part, start=part, stop=part + 1) for part in range(num_parts)]


def read_huggingface(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """One document a row. Raises `ValueError` where the hub fails: what it lacks is not known."""
    if not file.revision:
        yield from read_arrow(file, source, max_line_bytes)
        return
    try:
        rows = _rows(*_place(file), source.name, source.split)
        if file.num_parts > 1:
            rows = rows.shard(num_shards=file.num_parts, index=file.part)
        if rows.column_names is not None:  # pictures and sounds would be decoded
            wanted = {source.text_field, source.thread_field, source.id_field or DEFAULT_ID_FIELD}
            wanted |= {"source", "url", "licence", "license"}
            rows = rows.select_columns([name for name in rows.column_names if name in wanted])
        for row, value in enumerate(rows, start=1):
            yield _item(row, value, source, max_line_bytes)
    except Exception as error:
        where = f"{file.path} (shard {file.part + 1} of {file.num_parts})"
        raise UserError(f"{where} cannot be read: {_explain(error)}") from error


def _item(row: int, value: dict[str, Any], source: Source, max_bytes: int) -> Raw | Fault:
    item = take_fields(row, value, source)
    if isinstance(item, Fault):
        return item
    if len(item.text) * 4 > max_bytes:  # UTF-8 takes at most four bytes a character
        data = item.text.encode("utf-8", "surrogatepass")
        if len(data) > max_bytes:
            line = TooLong(len(data), data[:HEAD_BYTES])
            return too_long(row, line, max_bytes, source_id=item.source_id)
    return item


def _saved_files(source: Source, where: str) -> list[InputFile]:
    """The files of a folder that `save_to_disk` wrote; none if it is no such folder."""
    if "://" not in source.path and not Path(source.path).is_dir():
        return []
    folder = source.path.rstrip("/")
    try:
        filesystem, inner = fsspec.core.url_to_fs(folder)
        splits = _json_at(filesystem, f"{inner}/dataset_dict.json").get("splits")
        if splits is not None:
            if source.split not in splits:
                raise UserError(f"no split {source.split!r} (there are: {', '.join(splits)})")
            folder, inner = f"{folder}/{source.split}", f"{inner}/{source.split}"
        names = [f["filename"] for f in _json_at(filesystem, f"{inner}/state.json")["_data_files"]]
        sizes = [filesystem.info(f"{inner}/{name}")["size"] for name in names]
    except KeyError:
        return []
    except Exception as error:  # every file system has error types of its own
        raise UserError(f"{where} cannot be opened: {_explain(error)}") from error
    label = _label(source)
    return [
        InputFile(f"{folder}/{name}", size, 0, 0, label=label, file_bytes=size)
        for name, size in zip(names, sizes, strict=True)
    ]


def _json_at(filesystem: Any, path: str) -> dict[str, Any]:
    if not filesystem.isfile(path):
        return {}
    value: dict[str, Any] = json.loads(filesystem.cat_file(path))
    return value


def _load_builder(path: str, name: str | None, revision: str | None) -> Any:
    import datasets  # takes seconds, and only this kind of source needs it

    datasets.disable_progress_bars()
    return datasets.load_dataset_builder(path, name, revision=revision)


@lru_cache(maxsize=4)
def _rows(path: str, revision: str | None, name: str | None, split: str) -> Any:
    """Asking the hub for a data set's files takes seconds, and a worker reads several shards."""
    return _load_builder(path, name, revision).as_streaming_dataset(split)


def _revision(builder: Any, split: str) -> str:
    """The hub's commit, or a digest of a folder's files."""
    if builder.repo_id is not None:
        return str(builder.hash)
    return "files:" + digest_of([fingerprint(str(p)) for p in builder.config.data_files[split]])


def _place(file: InputFile) -> tuple[str, str | None]:
    """A local folder of files, or a name on the hub and its revision."""
    if file.revision.startswith("files:"):
        return file.address, None
    return file.path, file.revision


def _label(source: Source) -> str:
    return source.path.rstrip("/").rpartition("/")[2]


def _explain(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, ConnectionError):
        text += ". Is the network there? A copy saved by save_to_disk is read without it"
    return text
