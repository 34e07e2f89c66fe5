"""All rules of one source in their order: what changes a text, then what drops it.

Limits are applied to statistics that were computed before, so a changed limit needs no text.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from electrify.config.clean import CleanConfig, Source
from electrify.system.outcome import UserError
from pipeline.rules.boilerplate import remove_boilerplate
from pipeline.rules.extra import made_rules
from pipeline.rules.language import (
    PLAIN_FRACTION,
    LanguageShare,
    foreign_language,
    language_share,
    remove_foreign_lines,
)
from pipeline.rules.normalize import MAX_ROUNDS, Changes, clean_text, text_rules_for
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import (
    STATISTICS,
    Drop,
    bounds_of,
    broken_limits,
    has_letters,
    limits_for,
    statistics_of,
    too_short,
    undecodable,
)
from pipeline.rules.quality_model import parse


class Outcome(NamedTuple):
    """A cleaned text, why it is dropped whatever the limits, and what each rule changed.

    A text rule counts once, however much it changed; masks and lines count each.
    """

    text: str
    drop: Drop | None
    changes: Changes

    @property
    def has_masks(self) -> bool:
        return any(rule.endswith("_masked") for rule in self.changes)


# The statistics of a document, null where one says nothing about it. `characters` are those of the
# cleaned text; the others are explained in rules/quality.py
STATISTICS_SCHEMA = pa.schema(
    [
        pa.field("characters", pa.uint32()),
        pa.field("has_letters", pa.bool_()),
        pa.field("language_fraction", pa.float64()),
        pa.field("language_detail", pa.string()),
        *(pa.field(name, pa.float64()) for name in STATISTICS),
    ]
)


class DocumentRules:
    """The rules of one source. Law: `clean(clean(x).text).text == clean(x).text`."""

    def __init__(self, source: Source, config: CleanConfig) -> None:
        self._source, self._rules = source, (rules := config.rules_for(source.language))
        self._text_rules = text_rules_for(rules, source)
        line_rules: list[tuple[bool, str, Callable[[str, str], tuple[str, int]]]] = [
            (rules.remove_boilerplate, "boilerplate_removed", remove_boilerplate),
            (rules.remove_foreign_lines, "foreign_lines_removed", remove_foreign_lines),
        ]
        self._line_rules = tuple((name, rule) for wanted, name, rule in line_rules if wanted)
        self._extra_rules = made_rules(config.extra_rules, tuple(config.extra_code.items()))
        quality_text = config.quality_text
        self._quality_model = parse(quality_text) if quality_text else None
        limits = limits_for(source.language, source.profile, rules.quality)
        self._bounds = bounds_of(limits)
        self._statistics, self._tells_language = frozenset(STATISTICS), True
        if not config.keep_statistics:  # those that no limit asks for are for another look
            self._statistics = frozenset(rule.name for rule, _ in self._bounds)
            self._tells_language = rules.min_language_fraction > 0

    def clean(self, text: str) -> Outcome:
        """To a fixed point: a line that goes may leave blanks, or bring digits together.

        Ends as each round but the first follows one that masked digits or removed a line.
        """
        if lost := undecodable(text):
            return Outcome(text, lost, {})
        changes: Changes = {}

        def note(name: str, num: int, before: str, after: str) -> None:
            earlier, *first = changes.get(name, (0, before, after))
            changes[name] = earlier + num, first[0], first[1]

        raw, again, num_rounds = text, True, 0
        while again:
            num_rounds += 1
            if num_rounds > MAX_ROUNDS and self._extra_rules:
                raise UserError(
                    "clean.extra_rules: they and the rules of cleaning undo each other's work, in "
                    f"a text that begins {text[:60]!r}"
                )
            before = clean_text(text, self._text_rules, changes)
            if before is None:
                detail = f"markup within markup, more than {MAX_ROUNDS} layers"
                return Outcome(raw, Drop("nested_markup", detail), {})
            text = before
            if self._rules.mask_pii:
                text, kinds = mask_pii(before, self._source.language)
                for kind, num in kinds.items():
                    note(f"{kind}_masked", num, before, text)
            for name, remove in self._line_rules:
                left, num_lines = remove(text, self._source.language)
                if num_lines:
                    note(name, num_lines, text, left)
                text = left
            for extra in self._extra_rules:
                if (kept := extra.apply(text, self._source.language)) is None:
                    drop = Drop(extra.name, "clean.extra_rules")
                    return Outcome(text, drop, changes)
                if kept != text:
                    changes.setdefault(extra.name, (1, text, kept))
                text = kept
            again = text != before
        return Outcome(text, None, changes)

    def statistics(self, text: str) -> dict[str, float | str | None]:
        """What limits are applied to, of a cleaned text: a row of `STATISTICS_SCHEMA`.

        Without `clean.keep_statistics` the ones that no limit asks for are left out.
        """
        if not text:
            return {"characters": 0}
        language, share = self._source.language, None
        if self._tells_language:
            closely = self._rules.min_language_fraction > PLAIN_FRACTION
            share = language_share(text, language, closely)
        return {
            "characters": len(text),
            "has_letters": has_letters(text),
            "language_fraction": share and share.fraction,
            "language_detail": share and share.detail,
            **statistics_of(text, language, self._quality_model, self._statistics),
        }

    def limits(self) -> dict[str, float]:
        """The limits of the source by option."""
        own = ("min_characters", "min_language_fraction")
        given = {name: float(getattr(self._rules, name)) for name in own}
        return given | {rule.limit: limit for rule, limit in self._bounds}

    def drops(self, rows: pa.RecordBatch) -> dict[int, Drop]:
        """By place in rows of `STATISTICS_SCHEMA`: the first limit that a text breaks."""
        columns = {
            name: rows.column(name).to_numpy(zero_copy_only=False)
            for name in ("characters", "language_fraction", *STATISTICS)
        }
        length, min_characters = columns["characters"], self._rules.min_characters
        fraction, min_fraction = columns["language_fraction"], self._rules.min_language_fraction
        drops = broken_limits(columns, self._bounds)
        for place in np.flatnonzero(fraction < min_fraction).tolist():
            share = LanguageShare(fraction[place], rows.column("language_detail")[place].as_py())
            if drop := foreign_language(share, min_fraction):
                drops[place] = drop
        has_letters = pc.fill_null(rows.column("has_letters"), True).to_numpy(zero_copy_only=False)
        for place in np.flatnonzero(~has_letters).tolist():
            drops[place] = Drop("no_letters", f"{length[place]:.0f} characters, no letter")
        for place in np.flatnonzero((length == 0) | (length < min_characters)).tolist():
            if drop := too_short(int(length[place]), min_characters):
                drops[place] = drop
        return drops

    def masked(self, text: str, cleaned: str, has_masks: bool) -> tuple[str, bool]:
        """A text for others to read, masked as documents are; and whether markup hides personal
        data in it, so that the cleaned text stands for it.

        `has_masks` says whether there are masks in the cleaned text.
        """
        language = self._source.language
        masked = mask_pii(text, language)[0]
        cleaned, num_masked = mask_pii(cleaned, language)
        if num_masked or has_masks:
            again = self.clean(masked)
            if mask_pii(again.text, language)[1] or again.has_masks:
                return cleaned, True
        return masked, False
