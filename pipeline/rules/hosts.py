"""Hosts whose documents are removed: a list of the user's, such as UT1's of the University of
Toulouse (adult, gambling, phishing and others, up to millions of names)."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from electrify.system.outcome import UserError, first_line
from electrify.system.progress import warn

DOMAIN = r"[\w\-]+(?:\.[\w\-]+)*\.[A-Za-z]{2,}"
_URL = re.compile(
    rf"(?:[A-Za-z][\w+.\-]*:)?//(?:[^/?#@]*@)?(\[[^\]]*\]|[^/?#:@]+)|({DOMAIN})(?=[/?#:])"
)
_NAME = re.compile(r"[\w\-]+(?:\.[\w\-]+)*")


def host_of(address: str) -> str | None:
    """The host of an address in small letters; without a scheme a path has to follow it."""
    url = _URL.match(address.strip())
    return (url[1] or url[2]).lower() if url else None


class BlockedHosts:
    """Hashes of names, eight bytes each: a list of four million takes 32 MB."""

    def __init__(self, hashes: NDArray[np.uint64]) -> None:
        self._hashes = hashes

    @classmethod
    def load(cls, path: Path) -> "BlockedHosts":
        return cls(np.load(path))

    def find(self, url: str | None) -> str | None:
        """The listed host that an address is on or below: a.b.kr is below b.kr."""
        names = list(_names_of(url))
        if not names or not len(self._hashes):
            return None
        wanted = np.array([_hash(name) for name in names], dtype=np.uint64)
        at = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        matches = np.flatnonzero(self._hashes[at] == wanted)
        return names[matches[0]] if len(matches) else None


def write_hosts(listed: Path, target: Path) -> None:
    """The hashes of a list, sorted, for `BlockedHosts.load`; `UserError` for a list without any."""
    others: list[int] = []
    try:
        with listed.open(encoding="utf-8", errors="replace") as file:
            hashes = np.fromiter(map(_hash, _listed(file, others)), np.uint64)
    except OSError as error:
        raise UserError(
            f"clean.blocked_hosts = {str(listed)!r} cannot be read ({first_line(error)})"
        ) from None
    if not len(hashes):
        raise UserError(f"clean.blocked_hosts = {str(listed)!r} has no host: write one a line")
    if others:
        warn(
            f"clean.blocked_hosts = {str(listed)!r}: {len(others):,} line(s) name no host and "
            f"match nothing, the first is line {others[0]:,}"
        )
    with target.open("wb") as file:
        np.save(file, np.unique(hashes))


def _listed(lines: Iterable[str], others: list[int]) -> Iterator[str]:
    """The names in a list: one a line, behind an address as in a file of hosts, as a URL, or as
    filters write it (`*.name`, `||name^`). `others` gets the numbers of lines that have none."""
    for number, line in enumerate(lines, start=1):
        if words := line.partition("#")[0].split():
            word = words[-1].removeprefix("||").removeprefix("*.").partition("^")[0]
            name = _plain(host_of(word) or word)
            if _NAME.fullmatch(name):
                yield name
            else:
                others.append(number)


def _names_of(url: str | None) -> Iterator[str]:
    """The host of an address, and the names that it is below."""
    parts = _plain(host_of(f"{url or ''}/") or "").split(".")
    yield from (".".join(parts[start:]) for start in range(len(parts) - 1))


def _plain(name: str) -> str:
    return name.lower().strip(".").removeprefix("www.")


def _hash(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name.encode())
