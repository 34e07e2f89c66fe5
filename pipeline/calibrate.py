"""Limits beside one's own documents: percentiles, examples at each limit, and proposals.

FineWeb-2 (Penedo et al. 2025) chose limits by language from statistics of texts: of the share of
the language the median less one standard deviation, from 0.3 to 0.9; of the other statistics the
value beyond which a tenth of the texts lies. A proposal is worth what the texts are: the tenth of
good ones is good.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from electrify.config.clean import CleanConfig
from electrify.system.progress import aligned
from pipeline.annotate import RulesOf, groups_of
from pipeline.dedup.minhash import splitmix64
from pipeline.pass_files import chosen_rows, num_cleaned, read_cleaned
from pipeline.rules.order import STATISTICS_SCHEMA
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import RULES, TUNED_LIMITS, Rule
from pipeline.sources.input_file import batch_number
from pipeline.work_folder import WorkFolder

MAX_DOCUMENTS = 500_000  # of each batch of files the same part; 120 MB
NUM_EXAMPLES = 5
_PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_TAIL = 0.1
_CHARACTERS = Rule("min_characters", "too_short", "characters")
_LANGUAGE = Rule("min_language_fraction", "foreign_language", "language_fraction")
_SHOWN_CHARACTERS = 90


class Sample(NamedTuple):
    """Statistics of documents of one source entry and language, and where their texts stand."""

    columns: dict[str, NDArray[np.float64]]
    places: NDArray[np.int64]  # (document, 2): batch, row in it


def calibration(work: WorkFolder, files: Sequence[int], config: CleanConfig) -> Iterator[str]:
    """Lines for a reader: of each source entry and language a row a limit, then examples."""
    rules_of = RulesOf(config)
    for (source, language), sample in sorted(_samples(work, files).items()):
        entry, num = config.sources[source], len(sample.places)
        yield f"{language}, {entry.name or entry.path}, profile {entry.profile}: {num:,} documents"
        limits = rules_of[source, language].limits()
        rows = [
            _row(rule, limits.get(rule.limit), sample) for rule in (_CHARACTERS, _LANGUAGE, *RULES)
        ]
        head = ("limit", "now", "drops %", *(f"{of} %" for of in _PERCENTILES), "proposed")
        yield from aligned([head, *(row for row in rows if row)])
        for rule in (_CHARACTERS, _LANGUAGE, *RULES):
            if (limit := limits.get(rule.limit)) is not None:
                yield from _examples(rule, limit, sample, work)
        yield ""
    yield (
        "proposed: a tenth of these documents lies beyond it; of min_language_fraction median - "
        "standard deviation. Set what suits in [clean.language.LANGUAGE] and its quality, then "
        "give: electrify clean CONFIG --overwrite"
    )


def _samples(work: WorkFolder, files: Sequence[int]) -> Mapping[tuple[int, str], Sample]:
    names = STATISTICS_SCHEMA.names
    columns = ["rank", "reason", "language", *(n for n in names if n != "language_detail")]
    parts: dict[tuple[int, str], list[tuple[pa.RecordBatch, NDArray[np.int64]]]] = {}
    batches = [
        batch_number(number, index)
        for number in files
        for index in range(num_cleaned(work, number))
    ]
    most = MAX_DOCUMENTS // max(1, len(batches))
    for batch in batches:
        first = 0
        for rows in read_cleaned(work, batch, columns):
            numbers = np.arange(first, first + len(rows))
            first += len(rows)
            is_whole = rows.column("reason").is_null().to_numpy(zero_copy_only=False)
            order = np.argsort(splitmix64(rows.column("rank").to_numpy()))
            chosen = np.sort(order[is_whole[order]][:most])
            rows, numbers = rows.take(pa.array(chosen)), numbers[chosen]
            for key, places in groups_of(rows):
                where = np.stack([np.full(len(places), batch), numbers[places]], axis=1)
                parts.setdefault(key, []).append((rows.take(pa.array(places)), where))
    return {key: _joined(of) for key, of in parts.items()}


def _joined(parts: Sequence[tuple[pa.RecordBatch, NDArray[np.int64]]]) -> Sample:
    table = pa.Table.from_batches([rows for rows, _ in parts])
    columns = {
        name: table.column(name).to_numpy().astype(np.float64)
        for name in STATISTICS_SCHEMA.names
        if name not in ("language_detail", "has_letters")
    }
    fraction = columns["language_fraction"]
    fraction[np.isnan(fraction)] = 1.0  # nothing speaks against it
    return Sample(columns, np.concatenate([where for _, where in parts]))


def _asked(rule: Rule, sample: Sample) -> NDArray[np.float64]:
    """The statistic; not a number where the rule does not ask."""
    columns = sample.columns
    is_asked = (columns["words"] >= rule.num_words) & (columns["lines"] >= rule.num_lines)
    if rule in (_CHARACTERS, _LANGUAGE):
        is_asked[:] = True
    return np.where(is_asked, columns[rule.name], np.nan)


def _row(rule: Rule, limit: float | None, sample: Sample) -> tuple[str, ...] | None:
    values = _asked(rule, sample)
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    dropped = "" if limit is None else f"{100 * rule.breaks(known, limit).sum() / len(values):.2f}"
    shown = (f"{of:.3g}" for of in np.percentile(known, _PERCENTILES))
    now = "" if limit is None else f"{limit:g}"
    return (
        rule.limit,
        now,
        dropped,
        *shown,
        f"{proposed:.3g}" if (proposed := propose(rule, known)) is not None else "",
    )


def propose(rule: Rule, values: NDArray[np.float64]) -> float | None:
    """A limit from the statistic of documents, by FineWeb-2's rules; None for one that it left as
    it was."""
    if rule == _LANGUAGE:
        return float(np.clip(np.median(values) - values.std(), 0.3, 0.9))
    if rule.limit not in TUNED_LIMITS:
        return None
    is_min = rule.limit.startswith("min")
    return float(np.quantile(values, _TAIL if is_min else 1 - _TAIL))


def _examples(rule: Rule, limit: float, sample: Sample, work: WorkFolder) -> Iterator[str]:
    """The documents next to a limit on each side, if it drops any."""
    values = _asked(rule, sample)
    is_bad = rule.breaks(values, limit)
    if not is_bad.any():
        return
    yield f"  {rule.limit} = {limit:g}"
    for label, places in (("dropped", is_bad), ("kept", ~is_bad & ~np.isnan(values))):
        of_side = np.flatnonzero(places)
        nearest = of_side[np.argsort(np.abs(values[of_side] - limit), kind="stable")][:NUM_EXAMPLES]
        for place in nearest.tolist():
            batch, number = sample.places[place].tolist()
            yield f"    {label} {values[place]:.3g}: {_text(batch, number, work)}"


def _text(batch: int, number: int, work: WorkFolder) -> str:
    """The beginning of a document, masked."""
    rows = read_cleaned(work, batch, ["text", "language"])
    _, row = next(chosen_rows(rows, {number}))
    text = " ".join(row["text"][: 4 * _SHOWN_CHARACTERS].split())
    return mask_pii(text, row["language"])[0][:_SHOWN_CHARACTERS]
