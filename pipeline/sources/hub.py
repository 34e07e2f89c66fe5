"""Data sets of the Hugging Face hub, or of a folder in such a form, read as a stream."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from electrify.config.clean import DEFAULT_ID_FIELD, Source
from electrify.stage.folder import digest_of, fingerprint
from electrify.storage.hub import hub_failure
from electrify.system.outcome import UserError, first_line
from pipeline.sources.input_file import (
    KNOWN_FIELDS,
    MAX_PART_BYTES,
    Fault,
    InputFile,
    Raw,
    length_fault,
)
from pipeline.sources.json_file import take_fields

_LOCAL = "files:"  # begins the revision of a folder


def hub_files(source: Source, where: str) -> list[InputFile]:
    """The shards of a data set.

    `max_documents` counts through a data set's shards, so it then comes whole. Raises `ValueError`
    for a data set, subset, split or field that is not there, and where the hub is not reached.
    """
    if source.path.startswith("~"):
        source = source.model_copy(update={"path": str(Path(source.path).expanduser())})
    if source.path.startswith(("/", ".")) and not Path(source.path).is_dir():
        raise UserError(f"{where}: no such folder (relative paths start at {Path.cwd()})")
    if any((Path(source.path) / name).is_file() for name in ("state.json", "dataset_dict.json")):
        raise UserError(
            f"{where} was written by `save_to_disk`: write it as Parquet, each split by "
            "`datasets.load_from_disk(FOLDER).to_parquet(FILE)`, and read it with kind = 'parquet'"
        )
    try:
        builder = _load_builder(source.path, source.name, None)
        rows = builder.as_streaming_dataset(source.split)
        revision = _revision(builder, source.split)
        known = (builder.info.splits or {}).get(source.split)
        num_bytes = (known.num_bytes if known else 0) or MAX_PART_BYTES * rows.num_shards
        columns, num_shards = rows.column_names, rows.num_shards
    except Exception as error:  # of the network, the hub, the data set's files: all kinds
        raise UserError(f"{where} cannot be opened: {_explain(error)}") from error
    for field in source.fields:
        if columns is not None and field not in columns:
            raise UserError(f"{where} has no field {field!r} (there are: {', '.join(columns)})")
    num_parts = 1 if source.max_documents else num_shards
    label = source.path.rstrip("/").rpartition("/")[2]
    num_bytes //= num_parts
    file = InputFile(source.path, num_bytes, num_parts=num_parts, label=label, revision=revision)
    return [replace(file, part=part) for part in range(num_parts)]


def read_huggingface(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """One document a row. Raises `ValueError` where the hub fails: what it lacks is not known."""
    try:
        is_local = file.revision.startswith(_LOCAL)
        place = (file.address, None) if is_local else (file.path, file.revision)
        rows = _rows(*place, source.name, source.split)
        if file.num_parts > 1:
            rows = rows.shard(num_shards=file.num_parts, index=file.part)
        if rows.column_names is not None:  # pictures and sounds would be decoded
            wanted = {*source.fields, DEFAULT_ID_FIELD, *KNOWN_FIELDS}
            rows = rows.select_columns([name for name in rows.column_names if name in wanted])
        for row, value in enumerate(rows, start=1):
            item = take_fields(row, value, source)
            fault = length_fault(row, item.text, max_line_bytes)
            yield replace(fault, source_id=item.source_id) if fault else item
    except Exception as error:
        where = f"{file.path} (shard {file.part + 1} of {file.num_parts})"
        raise UserError(f"{where} cannot be read: {_explain(error)}") from error


def _load_builder(path: str, name: str | None, revision: str | None) -> Any:
    import datasets

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
    return _LOCAL + digest_of([fingerprint(str(p)) for p in builder.config.data_files[split]])


def _explain(error: Exception) -> str:
    text = hub_failure(error)
    if text == first_line(error):
        return f"{type(error).__name__}: {text}"
    return f"{text}. A copy as Parquet is read without the hub, kind = 'parquet'"
