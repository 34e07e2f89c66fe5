"""Files that one source may read together, and the path that names exactly these files."""

import glob
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pipeline.sources.stored import is_member, split_archive

_MIN_HEADS = 5  # files of a folder that are examined
_FILES_A_BEGINNING = 10  # on average, else each file is a source
_DIGITS = "0123456789"

# The options of files by path. It examines at most so many of the files, evenly spread, and leaves
# out those that it does not know. If it is strict, they have what one source can also mix.
Options = Callable[[Sequence[Path], bool, int], Mapping[Path, Hashable]]


@dataclass(frozen=True)
class Part:
    """Files of one ending whose options agree; `path` is a glob, or that of a single file."""

    path: str
    files: Sequence[Path]


def split(
    folder: Path, ending: str, paths: Sequence[Path], options: Options, is_strict: bool
) -> list[Part]:
    """All files below a folder, in the order of their paths. A file about which nothing is known,
    beside files that differ, is a part of its own."""
    of_path = options(paths, is_strict, _MIN_HEADS)
    if len(paths) == 1 or len({*of_path.values()}) < 2:
        return [Part(_pattern(folder, ending, paths), paths)]
    below: dict[Path, list[Path]] = {}
    for path in paths:
        below.setdefault(_child(folder, path), []).append(path)
    files = [child for child, inner in below.items() if inner == [child]]
    parts: list[Part] = []
    if files:
        parts = _split_files(folder, ending, files, paths, options(files, is_strict, len(files)))
    for child, inner in below.items():
        if inner != [child]:
            parts += split(child, ending, inner, options, is_strict)
    return sorted(parts, key=lambda part: part.files[0])


def _split_files(
    folder: Path,
    ending: str,
    files: Sequence[Path],
    paths: Sequence[Path],
    of_path: Mapping[Path, Hashable],
) -> list[Part]:
    """The files right in a folder. `paths` are all files below it."""
    groups: dict[Hashable, list[Path]] = {}
    for path, of in of_path.items():
        groups.setdefault(of, []).append(path)
    # a star matches slashes in an archive, so a glob may reach into its folders
    candidates = paths if is_member(str(files[0])) else files
    others = {*candidates} - ({*files} - {*of_path})
    parts: list[Part] = []
    # the largest first: its globs take the files about which nothing is known
    for group in sorted(groups.values(), key=len, reverse=True):
        matched = {path for part in parts for path in part.files}
        parts += _parts(folder, ending, group, candidates, (others | matched) - {*group})
    matched = {path for part in parts for path in part.files}
    return parts + [Part(_single(path), [path]) for path in files if path not in matched]


def _parts(
    folder: Path,
    ending: str,
    group: Sequence[Path],
    candidates: Sequence[Path],
    others: set[Path],
) -> list[Part]:
    """A whole group, by the beginning and the end of the names; where each such glob matches one of
    the others, by several beginnings, if they are few, or file by file."""
    if len(group) == 1:
        return [Part(_single(group[0]), group)]
    archive, _ = split_archive(str(group[0]))
    place = f"{glob.escape(archive)}::" if archive else f"{glob.escape(str(folder))}/"

    def part(pattern: str) -> Part:
        files = [path for path in candidates if fnmatchcase(_name(path), pattern)]
        return Part(place + pattern if len(files) > 1 else _single(files[0]), files)

    for head, tail in _globs([_name(path) for path in group], ending):
        one = part(f"{glob.escape(head)}*{glob.escape(tail)}")
        if others.isdisjoint(one.files):
            return [one]
    stems = {_name(path).removesuffix(ending): path in others for path in candidates}
    wanted = {_name(path).removesuffix(ending) for path in group}
    patterns = list(_beginnings(stems, wanted, ""))
    if len(patterns) * _FILES_A_BEGINNING > len(group):
        return [Part(_single(path), [path]) for path in group]
    return [part(pattern + glob.escape(ending)) for pattern in patterns]


def _beginnings(is_other: Mapping[str, bool], wanted: Set[str], head: str) -> Iterator[str]:
    """Globs of beginnings that match all wanted names among those that begin with `head`, and none
    of the others: `part-[02-9]*`."""
    clean: list[str] = []
    for letter in sorted({name[len(head) : len(head) + 1] for name in is_other}):
        below = {n: is_other[n] for n in is_other if n.startswith(head + letter)}
        if not letter:
            below = {head: is_other[head]}
        if wanted.isdisjoint(below):
            continue
        if not letter:
            yield glob.escape(head)
        elif any(below.values()):
            yield from _beginnings(below, wanted, head + letter)
        elif letter.isalnum():
            clean.append(letter)
        else:
            yield f"{glob.escape(head + letter)}*"
    if clean:
        letters = "".join(clean)
        yield f"{glob.escape(head)}{f'[{letters}]' if clean[1:] else letters}*"


def _name(path: Path) -> str:
    """What a star is matched with: the name in the folder, or the whole path in an archive."""
    archive, member = split_archive(str(path))
    return member if archive else path.name


def _globs(names: Sequence[str], ending: str) -> Iterator[tuple[str, str]]:
    """What may stand before and behind a star that matches all names, the shortest first."""
    head = _common_start([name.removesuffix(ending) for name in names])
    tail = _common_start([name[len(head) :][::-1] for name in names])[::-1]
    folder = head[: head.rfind("/") + 1]  # in an archive
    heads = dict.fromkeys([folder, head.rstrip(_DIGITS), head])
    yield from itertools.product(heads, dict.fromkeys([ending, tail.lstrip(_DIGITS), tail]))


def _common_start(words: Sequence[str]) -> str:
    first, last = min(words), max(words)
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(one for one, _ in pairs)


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
