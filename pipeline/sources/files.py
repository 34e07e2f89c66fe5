"""The raw files of a corpus: what the sources name, in a fixed order, dealt out as work."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Any
from unicodedata import normalize

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import glob_translate

from electrify.config.clean import CleanConfig, Source
from electrify.stage.folder import digest_of, fingerprint
from electrify.storage.encodings import is_utf8, marked_encoding
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from pipeline.sources.hub import hub_files
from pipeline.sources.input_file import (
    FILE_BITS,
    MAX_PART_BYTES,
    MIN_PART_BYTES,
    USUAL_PARTS,
    FileBatch,
    InputFile,
    packing,
    text_ending,
)
from pipeline.sources.json_file import TextPath, is_object_a_line
from pipeline.sources.lines import head_of
from pipeline.sources.readers import KIND_OF_ENDING, REFUSED
from pipeline.sources.stored import (
    DAMAGED_ARCHIVE,
    is_member,
    list_members,
    open_source,
    reading,
    split_archive,
)

# Large beside Beam's cost of an element, so small that workers end together. They decide boundaries
# of output files, so they must not follow worker counts. A batch of documents makes one file: of a
# packed file, which one worker must read from its start, there are several.
FILE_BATCH_BYTES = 8_000_000
BATCH_CHARACTERS = 16_000_000
# Each batch sends to each shard. Shards follow the size of the corpus; so that the number of
# elements does, too, and not its square, batches grow where there would be more.
MAX_FILE_BATCHES = 8192
_MAX_SOURCES = 512
_AT_ONCE = 16  # files that are hashed, or of which a storage is asked
LINK_TO_NOTHING = (
    "a link to nothing: fetch what it stands for (git annex get, git lfs pull), or remove it"
)
_TABLES = ("csv", "tsv")  # commas and tabs are found behind either name


def expand_sources(sources: Sequence[Source], output_dir: str | None = None) -> list[InputFile]:
    """Every file that the sources name, by source and then by path, big ones in parts.

    What a glob matches below `output_dir`, the run's own folder, is left out, unless the glob
    begins there. Raises `ValueError` for a glob that matches no file and for what cannot be listed
    or reached.
    """
    if len(sources) > _MAX_SOURCES:
        raise UserError(
            f"{len(sources)} sources; at most {_MAX_SOURCES}: let a glob match several files"
        )
    folder = str(Path.cwd())
    files: list[InputFile] = []
    for source_index, source in enumerate(sources):
        where = _where(source, source_index)
        if source.kind == "huggingface":
            parts = hub_files(source, where)
        else:
            named = _readable_files(source, where, output_dir)
            whole = [InputFile(path, size, file_bytes=size) for path, size in named]
            parts = [part for file in whole for part in split_file(file, source)]
        if len(parts) >= 1 << FILE_BITS:
            raise UserError(
                f"{where} has {len(parts):,} files or parts; at most {1 << FILE_BITS:,}"
            )
        files += [
            replace(part, source_index=source_index, file_index=index, folder=folder)
            for index, part in enumerate(parts)
        ]
    return files


def check_inputs(config: CleanConfig, output_dir: str | None = None) -> int:
    """The bytes of all files, as of `expand_sources`; `ValueError` for a glob that matches nothing,
    and for a format that no kind of source reads.

    No file is read, and no data set of the hub is asked for.
    """
    num_bytes = 0
    for index, source in enumerate(config.sources):
        if source.kind != "huggingface":
            files = _readable_files(source, _where(source, index), output_dir)
            num_bytes += sum(size for _, size in files)
    return num_bytes


def batch_files(files: Sequence[InputFile]) -> list[FileBatch]:
    """Deal files out in order, about `FILE_BATCH_BYTES` of text to a batch, or so much that there
    are about `MAX_FILE_BATCHES`."""
    fewest = sum(file.text_bytes for file in files) // MAX_FILE_BATCHES
    most, batch_characters = max(FILE_BATCH_BYTES, fewest), max(BATCH_CHARACTERS, fewest)
    batches: list[list[InputFile]] = []
    num_bytes = 0
    for file in files:
        if not batches or num_bytes + file.text_bytes > most:
            batches.append([])
            num_bytes = 0
        batches[-1].append(file)
        num_bytes += file.text_bytes
    return [FileBatch(index, tuple(batch), batch_characters) for index, batch in enumerate(batches)]


def fingerprints(files: Sequence[InputFile]) -> dict[str, str]:
    """A digest of each raw file by path, once for all its parts, and of an archive for all its
    members; a data set has its revision, of several sources (splits) of one path those of all."""

    def digest(mark: tuple[str, str, str]) -> str:
        path, _, revision = mark
        with reading(path):
            return digest_of([*mark]) if revision else fingerprint(path)

    digests: dict[str, set[str]] = {}
    paths = [split_archive(file.path)[0] or file.path for file in files]
    marks = dict.fromkeys(
        (path, file.label, file.revision)
        for path, file in zip(paths, files, strict=True)
        if not file.part
    )
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for (path, _, _), mark in zip(marks, threads.map(digest, marks), strict=True):
            digests.setdefault(path, set()).add(mark)
    return {
        path: digest_of(sorted(marks)) if len(marks) > 1 else marks.pop()
        for path, marks in digests.items()
    }


def _readable_files(source: Source, where: str, output_dir: str | None) -> list[tuple[str, int]]:
    """(path, bytes) of the files that a source names; `UserError` for a format that it cannot read.

    Of an archive they are the members that a pattern behind :: matches, else those of the kind.
    """
    archives, pattern = split_archive(source.path)
    archive, mark, _ = source.path.partition("::")
    if mark and (advice := REFUSED.get(text_ending(archive))):
        raise UserError(f"{where}: {archive} is {advice}")
    named: list[tuple[str, int]] = []
    for name, num_bytes in _match_files(archives or source.path, where, output_dir):
        is_archive = bool(split_archive(name)[0])
        named += _members(name, pattern if archives else "*") if is_archive else [(name, num_bytes)]
    files = [
        (name, num_bytes)
        for name, num_bytes in named
        if is_member(source.path)
        or not is_member(name)
        or KIND_OF_ENDING.get(text_ending(name)) == source.kind
    ]
    if not files:
        endings = ", ".join(sorted({text_ending(name) for name, _ in named})) or (
            f"nothing like {pattern}" if pattern else "nothing"
        )
        raise UserError(f"{where} holds no file of kind = {source.kind!r}; it holds {endings}")
    for path, _ in files:
        ending = text_ending(path)
        is_table = source.kind in _TABLES and ending.removeprefix(".") in _TABLES
        if not is_table and (advice := REFUSED.get(ending)):
            raise UserError(f"{where}: kind = {source.kind!r} cannot read {path}, {advice}")
    return files


def _where(source: Source, source_index: int) -> str:
    return f"clean.sources[{source_index}].path = {source.path!r}"


def _members(archive: str, pattern: str) -> list[tuple[str, int]]:
    try:
        with reading(archive):
            return list_members(archive, pattern)
    except DAMAGED_ARCHIVE as error:
        raise UserError(f"{archive} is damaged ({error}): fetch it again") from None


def _match_files(path: str, where: str, output_dir: str | None) -> list[tuple[str, int]]:
    """(path, bytes) of the files that a glob matches; links are what they lead to.

    As in a shell, a name that begins with a dot is matched only by a pattern that does.
    """
    try:
        if "://" in path:
            filesystem, pattern = fsspec.core.url_to_fs(path)
        else:  # a name may hold ::
            filesystem, pattern = LocalFileSystem(), LocalFileSystem._strip_protocol(path)
        if filesystem.isfile(pattern):  # a name may hold [ or *
            infos = {pattern: filesystem.info(pattern)}
        elif "file" in filesystem.protocol:
            infos = _local_infos(filesystem, pattern, output_dir)
        else:
            infos = filesystem.glob(pattern, detail=True)
    except Exception as error:  # every file system has error types of its own
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{where} cannot be listed: {reason}") from error
    files = {
        name: info
        for name, info in infos.items()
        if not _is_hidden(name, pattern)
        and (info["type"] == "file" or (info.get("islink") and not filesystem.isdir(name)))
    }
    for name in files:
        if fault := fault_of_name(name):
            raise UserError(f"{where}: {fault}")
    if not files:
        hint = "" if "://" in path else f"{_hint(path)} (relative paths start at {Path.cwd()})"
        if output_dir and "://" not in path and glob(path, recursive=True):
            hint = (
                f": those below output_dir = {output_dir!r} are left out; give another output_dir"
            )
        raise UserError(f"{where} matches no file{hint}")
    if "file" not in filesystem.protocol:
        shown = filesystem.unstrip_protocol
    elif path.startswith(("/", "file:", "~")):
        shown = str
    else:  # as the config wrote it: a relative glob gives relative paths
        shown = os.path.relpath
    # some web servers do not tell the size
    return sorted((shown(name), info["size"] or 0) for name, info in files.items())


def _hint(path: str) -> str:
    """Why a local path may match no file, and what to write."""
    if Path(path).is_symlink():
        return f"; it is {LINK_TO_NOTHING}"
    if Path(path).is_dir():
        return f"; it is a folder: write {path.rstrip('/')}/*"
    others = path.replace("[", "[[]"), normalize("NFC", path), normalize("NFD", path)
    other = next((other for other in others if other != path and glob(other, recursive=True)), "")
    return f"; write it so that it matches the names there: {other}" if other else ""


def _local_infos(
    filesystem: LocalFileSystem, pattern: str, output_dir: str | None
) -> dict[str, dict[str, Any]]:
    """What a local glob matches. fsspec's own leaves out what is behind links to folders, and
    folders that cannot be listed."""
    root = re.split(r"[*?[]", pattern)[0].rpartition("/")[0] or "/"
    own = Path(output_dir).resolve() if output_dir else None
    if own and Path(root).resolve().is_relative_to(own):
        own = None  # the glob means what is in there
    parts = pattern.split("/")
    is_match = re.compile(glob_translate(pattern)).match

    def is_entered(folder: str) -> bool:
        depth = folder.count("/")
        is_named = depth < len(parts) - 1 and fnmatchcase(folder.rpartition("/")[2], parts[depth])
        if own and Path(folder).resolve() == own:
            return False
        return (is_named or "**" in parts[: depth + 1]) and not _is_hidden(folder, pattern)

    def stop(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    paths = files_below(root, is_entered, stop)
    shown = [path for path in paths if is_match(path) and not _is_hidden(path, pattern)]
    infos = {path: filesystem.info(path) for path in shown if os.path.exists(path)}
    if absent := [path for path in shown if path not in infos]:
        more = f" and {len(absent) - 1:,} more" if len(absent) > 1 else ""
        warn(f"{absent[0]}{more}: left out as {LINK_TO_NOTHING}")
    return infos


def files_below(
    folder: str, is_entered: Callable[[str], bool], on_error: Callable[[OSError], None]
) -> Iterator[str]:
    """The files in a folder and in the folders below it, also behind links to folders, but those
    that lead to one around them."""
    # real paths of the folders around each
    around = {folder: [*map(str, Path(folder).resolve().parents)]}
    for root, folders, names in os.walk(folder, onerror=on_error, followlinks=True):
        reals = [*around.pop(root), os.path.realpath(root)]
        inner = [path for name in folders if is_entered(path := os.path.join(root, name))]
        inner = [path for path in inner if os.path.realpath(path) not in reals]
        around |= dict.fromkeys(inner, reals)
        folders[:] = map(os.path.basename, inner)
        yield from (os.path.join(root, name) for name in names)


def _is_hidden(name: str, pattern: str) -> bool:
    dotted = [part for part in name.split("/") if part.startswith(".")]
    wanted = [part for part in pattern.split("/") if part.startswith(".")]
    return any(not any(fnmatchcase(part, one) for one in wanted) for part in dotted)


def fault_of_name(path: str) -> str | None:
    """Why a file of this name cannot be read, and what to do: Parquet and reports hold UTF-8."""
    shown = path.encode("utf-8", "backslashreplace").decode("utf-8")
    if shown == path:
        return None
    return (
        f"the name of the file {shown} is not UTF-8; rename it, for example convmv -f cp949 "
        "-t utf-8 --notest FILE"
    )


# Big files in parts, so that several workers read one: the parts are the same on every run.


def split_file(file: InputFile, source: Source, part_bytes: int | None = None) -> list[InputFile]:
    """The file in parts of about `part_bytes` of text, or whole where it cannot be divided.

    Packed files and members of archives are read from their start. `max_documents` needs the
    rows before, so it keeps a file whole.
    """
    part_bytes = part_bytes or min(
        max(file.text_bytes // USUAL_PARTS, MIN_PART_BYTES), MAX_PART_BYTES
    )
    if source.max_documents or file.text_bytes <= part_bytes:
        return [file]
    if source.kind == "parquet":
        return _parquet_parts(file, source.text_field, part_bytes)
    is_packed = packing(file.path) or is_member(file.path)
    if is_utf8(source.encoding) and not is_packed and _is_lines(file, source):
        return line_parts(file, part_bytes)
    return [file]


def _is_lines(file: InputFile, source: Source) -> bool:
    """Whether a line can be read without the others, by the head of the file."""
    if source.kind != "jsonl" and (source.kind, source.document) != ("text", "line"):
        return False
    head = head_of(file)
    if not is_utf8(marked_encoding(head) or "utf-8"):
        return False
    path = TextPath.parse(source.text_field)
    return source.kind == "text" or (path.list_keys is None and is_object_a_line(head, path))


def line_parts(file: InputFile, part_bytes: int) -> list[InputFile]:
    """Equal ranges of bytes; the reader moves each edge to the next line."""
    num_parts = -(-file.num_bytes // part_bytes)
    edges = [file.num_bytes * part // num_parts for part in range(num_parts)]
    stops = [*edges[1:], 0]  # the last reads on to the file's end
    lengths = [(stop or file.num_bytes) - start for start, stop in zip(edges, stops, strict=True)]
    ranges = enumerate(zip(edges, stops, lengths, strict=True))
    return [
        replace(file, part=part, num_parts=num_parts, start=start, stop=stop, num_bytes=length)
        for part, (start, stop, length) in ranges
    ]


def _parquet_parts(file: InputFile, column: str, part_bytes: int) -> list[InputFile]:
    try:
        with open_source(file) as opened, pq.ParquetFile(opened) as table:
            if column not in table.schema_arrow.names:
                return [file]
            groups = [table.metadata.row_group(n) for n in range(table.metadata.num_row_groups)]
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return [file]  # the reader names the fault
    # of all columns: Arrow aborts the process when it is asked for the size of a column whose
    # statistics are damaged (`RowGroupMetaData.column`, pyarrow 25)
    sizes = [max(0, group.total_byte_size) for group in groups]
    parts: list[InputFile] = []
    text_bytes = first_row = 0
    for index, (group, size) in enumerate(zip(groups, sizes, strict=True)):
        if not parts or (text_bytes and text_bytes + size > part_bytes):
            parts.append(replace(file, num_bytes=0, start=index, first_row=first_row))
            text_bytes = 0
        packed = parts[-1].num_bytes + file.num_bytes * size // max(1, sum(sizes))
        parts[-1] = replace(parts[-1], num_bytes=packed, stop=index + 1)
        text_bytes += size
        first_row += group.num_rows
    if len(parts) < 2:
        return [file]
    return [replace(p, part=part, num_parts=len(parts)) for part, p in enumerate(parts)]
