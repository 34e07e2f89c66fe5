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


def blocked_host(url: str | None, hashes: NDArray[np.uint64]) -> str | None:
    """The listed host that an address is on or below: a.b.kr is below b.kr.

    `hashes` are those of the list, eight bytes each: one of four million takes 32 MB.
    """
    for name in _names_of(url):
        wanted = np.uint64(_hash(name))
        place = np.searchsorted(hashes, wanted)
        if place < len(hashes) and hashes[place] == wanted:
            return name
    return None


def write_hosts(listed: Path, target: Path) -> None:
    """The hashes of a list, sorted, as an array; `UserError` for a list without any."""
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
