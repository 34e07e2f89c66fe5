"""Limits beside one's own documents: percentiles, examples at each limit, and proposals.

FineWeb-2 (Penedo et al. 2025) chose limits by language from statistics of texts: of the share of
the language the median less one standard deviation, from 0.3 to 0.9; of the other statistics the
value beyond which a tenth of the texts lies. A proposal is worth what the texts are: the tenth of
good ones is good.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from electrify.config.clean import CleanConfig
from electrify.system.progress import aligned
from pipeline.dedup.minhash import splitmix64
from pipeline.passes.annotate import RulesOf, groups_of
from pipeline.passes.files import chosen_rows, num_cleaned, read_cleaned
from pipeline.rules.order import STATISTICS_SCHEMA
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import RULES, TUNED_LIMITS, LimitRule
from pipeline.sources.input_file import batch_number
from pipeline.work_folder import WorkFolder

MAX_DOCUMENTS = 500_000  # of each batch of files the same part; 120 MB
NUM_EXAMPLES = 5
_PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_TAIL = 0.1
_CHARACTERS = LimitRule("min_characters", "too_short", "characters")
_LANGUAGE = LimitRule("min_language_fraction", "foreign_language", "language_fraction")
_SHOWN_CHARACTERS = 90


def calibration(
    work: WorkFolder, file_batches: Sequence[int], config: CleanConfig
) -> Iterator[str]:
    """Lines for a reader: of each source entry and language a row a limit, then examples."""
    rules_of = RulesOf(config)
    for (source, language), sample in sorted(_samples(work, file_batches).items()):
        entry, num = config.sources[source], len(sample)
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


def _samples(work: WorkFolder, file_batches: Sequence[int]) -> Mapping[tuple[int, str], pa.Table]:
    """By index of the source and language: statistics of documents, and the batch and row in it
    where each stands."""
    names = [name for name in STATISTICS_SCHEMA.names if name != "language_detail"]
    columns = ["rank", "reason", "language", *names]
    parts: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
    batches = [
        batch_number(number, index)
        for number in file_batches
        for index in range(num_cleaned(work, number))
    ]
    most = MAX_DOCUMENTS // max(1, len(batches))
    for batch in batches:
        first = 0
        for rows in read_cleaned(work, batch, columns):
            is_whole = rows.column("reason").is_null().to_numpy(zero_copy_only=False)
            order = np.argsort(splitmix64(rows.column("rank").to_numpy()))
            chosen = np.sort(order[is_whole[order]][:most])
            sample = rows.take(pa.array(chosen))
            sample = sample.append_column("batch", pa.array(np.full(len(chosen), batch)))
            sample = sample.append_column("number", pa.array(first + chosen))
            first += len(rows)
            for key, places in groups_of(sample):
                parts[key].append(sample.take(pa.array(places)))
    return {key: pa.Table.from_batches(of) for key, of in parts.items()}


def _asked(rule: LimitRule, sample: pa.Table) -> NDArray[np.float64]:
    """The statistic; not a number where the rule does not ask."""
    values: NDArray[np.float64] = sample[rule.name].to_numpy().astype(np.float64)
    if rule == _LANGUAGE:
        values[np.isnan(values)] = 1.0  # nothing speaks against it
    elif rule != _CHARACTERS:
        words, lines = sample["words"].to_numpy(), sample["lines"].to_numpy()
        values[~((words >= rule.num_words) & (lines >= rule.num_lines))] = np.nan
    return values


def _row(rule: LimitRule, limit: float | None, sample: pa.Table) -> tuple[str, ...] | None:
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


def propose(rule: LimitRule, values: NDArray[np.float64]) -> float | None:
    """A limit from the statistic of documents, by FineWeb-2's rules; None for one that it left as
    it was."""
    if rule == _LANGUAGE:
        return float(np.clip(np.median(values) - values.std(), 0.3, 0.9))
    if rule.limit not in TUNED_LIMITS:
        return None
    is_min = rule.limit.startswith("min")
    return float(np.quantile(values, _TAIL if is_min else 1 - _TAIL))


def _examples(rule: LimitRule, limit: float, sample: pa.Table, work: WorkFolder) -> Iterator[str]:
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
            batch, number = (sample[name][place].as_py() for name in ("batch", "number"))
            yield f"    {label} {values[place]:.3g}: {_text(batch, number, work)}"


def _text(batch: int, number: int, work: WorkFolder) -> str:
    """The beginning of a document, masked."""
    rows = read_cleaned(work, batch, ["text", "language"])
    _, row = next(chosen_rows(rows, {number}))
    text = " ".join(row["text"][: 4 * _SHOWN_CHARACTERS].split())
    return mask_pii(text, row["language"])[0][:_SHOWN_CHARACTERS]
