"""Hosts whose documents are removed: a list of the user's, such as UT1's of the University of
Toulouse (adult, gambling, phishing and others, up to millions of names)."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import xxhash
from numpy.typing import NDArray

from electrify.system.outcome import UserError, first_line


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
    try:
        with listed.open(encoding="utf-8", errors="replace") as file:
            hashes = np.fromiter((_hash(name) for name in _listed(file) if name), np.uint64)
    except OSError as error:
        raise UserError(
            f"clean.blocked_hosts = {str(listed)!r} cannot be read ({first_line(error)})"
        ) from None
    if not len(hashes):
        raise UserError(f"clean.blocked_hosts = {str(listed)!r} has no host: write one a line")
    with target.open("wb") as file:
        np.save(file, np.unique(hashes))


def _listed(lines: Iterable[str]) -> Iterator[str]:
    """The names in a list: one a line, behind an address as in a file of hosts, or as a URL."""
    for line in lines:
        words = line.partition("#")[0].split()
        if words:
            name = urlsplit(words[-1]).hostname if "://" in words[-1] else words[-1]
            yield (name or "").lower().strip(".").removeprefix("www.")


def _names_of(url: str | None) -> Iterator[str]:
    """The host of an address, and the names that it is below."""
    try:
        name = urlsplit(url or "").hostname or ""
    except ValueError:  # a broken IPv6 address
        return
    parts = name.strip(".").removeprefix("www.").split(".")
    yield from (".".join(parts[start:]) for start in range(len(parts) - 1))


def _hash(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name.encode())
