"""Planted copies of known similarity, and how many of them a deduplication finds.

The similarity is the Jaccard of sets of word 5-grams. A planted near copy has J to J + 0.02, by
seed. What was removed is compared with what was kept by the same measure, for every program.
"""

import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from benchmarks.throughput.report import Row
from pipeline.documents import document_paths, read_rows

SHINGLE_WORDS = 5
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")
BANDS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
BAND_WIDTH = 0.02
MIN_WORDS, MAX_WORDS = 100, 3000  # of an original; longer ones would outweigh the real text
_TRIES = 4  # of other places in one original before another is taken
_SPACE = re.compile(r"(\s+)")
_KEPT = re.compile(r"of (\d{2}-\d{5}-\d{9})")
_DUPLICATE = ("duplicate", "near_duplicate")


@dataclass(frozen=True)
class Text:
    """One text of the corpus; `source` counts the corpora of the run."""

    id: str
    source: int
    language: str
    text: str


@dataclass(frozen=True)
class Planted:
    """A copy and what it is a copy of; `band` is 1 for an exact one."""

    original: Text
    text: str
    band: float
    jaccard: float


@dataclass(frozen=True)
class Pair:
    """A planted copy and its original, by id."""

    copy: str
    original: str
    band: float
    jaccard: float


def shingles(text: str) -> frozenset[int]:
    """Hashes of the distinct word 5-grams; of a shorter text, of all its words as one.

    Case, compatibility forms, punctuation and the value of numbers do not count, as in both
    systems. Hashes are Python's, so they hold within one process only.
    """
    plain = _NUMBER.sub("0", unicodedata.normalize("NFKC", text).lower())
    words = _WORD.findall(plain)
    last = max(1, len(words) - SHINGLE_WORDS + 1)
    return frozenset(hash(tuple(words[i : i + SHINGLE_WORDS])) for i in range(last))


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Size of the intersection over that of the union."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)


def plant(texts: Sequence[Text], num_exact: int, num_near: int, seed: int) -> list[Planted]:
    """`num_exact` exact copies, and `num_near` of each band, each of another original, in which
    words are replaced by those of another text.

    Raises `ValueError` if the corpus has too few documents that can be altered so.
    """
    rng = random.Random(seed)
    originals = [t for t in texts if MIN_WORDS <= len(t.text.split()) <= MAX_WORDS]
    rng.shuffle(originals)
    needed = num_exact + len(BANDS) * num_near
    if len(originals) < needed:
        raise ValueError(
            f"{needed:,} copies need as many documents of {MIN_WORDS} to {MAX_WORDS} words, the "
            f"corpus has {len(originals):,}; give fewer with --exact and --near"
        )
    made = [Planted(t, t.text, 1.0, 1.0) for t in originals[:num_exact]]
    left = originals[num_exact:]
    donors = {t.language: [o.text for o in originals if o.language == t.language] for t in left}
    # the narrowest bands first, while there are long originals: in a short one a word is > 0.02
    for band in reversed(BANDS):
        made += _take(left, donors, band, num_near, rng)
    return made


def _take(
    left: list[Text], donors: dict[str, list[str]], band: float, number: int, rng: random.Random
) -> list[Planted]:
    """Copies of the last originals that can be altered to the band; these leave the list."""
    made: list[Planted] = []
    for position in range(len(left) - 1, -1, -1):
        if len(made) == number:
            break
        original = left[position]
        pieces = _SPACE.split(original.text.strip())
        for _ in range(_TRIES):
            donor = rng.choice(donors[original.language]).split()
            changed = _replace_words(pieces, donor, rng)
            if copy := _fit(original.text, changed, len(pieces) // 2, band):
                del left[position]
                made.append(Planted(original, copy[0], band, copy[1]))
                break
    if len(made) < number:
        raise ValueError(
            f"only {len(made)} of {number} documents left can be brought to Jaccard {band}; give "
            "fewer copies with --near, or a larger corpus"
        )
    return made


def _fit(
    text: str, changed: Callable[[int], str], most: int, band: float
) -> tuple[str, float] | None:
    """The least change that leaves Jaccard below the band's end, if it is in the band."""
    truth = shingles(text)
    low, high = 0, most  # changes: too few, enough
    while high - low > 1:
        middle = (low + high) // 2
        if jaccard(truth, shingles(changed(middle))) > band + BAND_WIDTH:
            low = middle
        else:
            high = middle
    copy = changed(high)
    found = jaccard(truth, shingles(copy))
    return (copy, found) if band <= found <= band + BAND_WIDTH else None


def _replace_words(pieces: list[str], donor: list[str], rng: random.Random) -> Callable[[int], str]:
    """How many places to change -> the text; `pieces` are words and spaces in turn."""
    places = list(range(0, len(pieces), 2))
    rng.shuffle(places)
    words = [rng.choice(donor) for _ in places]

    def changed(number: int) -> str:
        copy = pieces.copy()
        for place, word in zip(places[:number], words, strict=False):
            copy[place] = word
        return "".join(copy)

    return changed


@dataclass(frozen=True)
class Outcome:
    """What a deduplication did: removed id -> id it was removed in favour of, and who is left."""

    kept_of: Mapping[str, str]
    kept: frozenset[str]

    def representative(self, document_id: str) -> str:
        """The document that stands for this one in the end."""
        seen = {document_id}
        while (following := self.kept_of.get(document_id)) is not None:
            assert following not in seen, f"{following} was removed in favour of itself"
            seen.add(following)
            document_id = following
        return document_id


def read_outcome(folder: Path) -> Outcome:
    """Of a `clean` folder; `ValueError` for a removal that does not name what was kept."""
    kept = frozenset(row["id"] for row in read_rows(document_paths(folder), ["id"]))
    kept_of: dict[str, str] = {}
    paths = sorted(folder.glob("removed-*.parquet"))
    for row in read_rows(paths, ["id", "reason", "detail"]):
        if row["reason"] in _DUPLICATE:
            found = _KEPT.match(row["detail"])
            if found is None:
                raise ValueError(f"{folder}: {row['id']} {row['reason']}: {row['detail']!r}")
            kept_of[row["id"]] = found[1]
    return Outcome(kept_of, kept)


def read_peer_outcome(folders: Iterable[Path]) -> Outcome:
    """Of the peer's parts: `kept` and `removed`, whose rows carry the number of their cluster."""
    kept_of: dict[str, str] = {}
    kept: set[str] = set()
    for folder in folders:
        rows = dict(_peer_rows(folder / "kept"))
        kept.update(rows)
        kept_in = {cluster: document_id for document_id, cluster in rows.items() if cluster >= 0}
        kept_of |= {removed_id: kept_in[c] for removed_id, c in _peer_rows(folder / "removed")}
    return Outcome(kept_of, frozenset(kept))


def _peer_rows(folder: Path) -> Iterable[tuple[str, int]]:
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                row = orjson.loads(line)
                yield row["id"], row["metadata"].get("minhash_cluster_id", -1)


def measure_recall(system: str, pairs: Sequence[Pair], outcome: Outcome) -> list[Row]:
    """By band: how many pairs there are, of how many one stands for the other or a third document
    for both, and their share."""
    return [
        {
            "system": system,
            "band": band,
            "pairs": len(found),
            "together": sum(found),
            "recall": sum(found) / len(found),
        }
        for band in sorted({pair.band for pair in pairs})
        for found in [
            [
                outcome.representative(pair.copy) == outcome.representative(pair.original)
                for pair in pairs
                if pair.band == band
            ]
        ]
    ]


def named_ids(outcome: Outcome) -> set[str]:
    """Ids of the documents that `measure_precision` compares."""
    return set(outcome.kept_of) | {outcome.representative(i) for i in outcome.kept_of}


def measure_precision(system: str, outcome: Outcome, texts: Mapping[str, str]) -> list[Row]:
    """Shares of the removals with a Jaccard of at least .5, .7, .8 to the document kept: of all,
    and of those whose text is not that of the document kept."""
    found = [
        (texts[removed] != texts[kept], jaccard(shingles(texts[kept]), shingles(texts[removed])))
        for removed in outcome.kept_of
        for kept in [outcome.representative(removed)]
    ]
    unequal = [value for differs, value in found if differs]
    return [
        {"system": system, "removals": name, "number": len(values)}
        | {
            f"at_least_{least}": sum(100 * value >= least for value in values) / len(values)
            if values
            else None
            for least in (50, 70, 80)
        }
        for name, values in (("all", [v for _, v in found]), ("texts that differ", unequal))
    ]
