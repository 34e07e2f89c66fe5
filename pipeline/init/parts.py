"""Files that one source may read together, and the path that names exactly these files."""

import glob
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.sources.stored import is_member, split_archive


@dataclass(frozen=True)
class Part:
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
