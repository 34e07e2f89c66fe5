"""All rules of one source in their order: what changes a text, then what drops it."""

from collections.abc import Callable
from typing import NamedTuple

from electrify.config.clean import CleanConfig, Source
from electrify.system.outcome import UserError
from pipeline.rules.boilerplate import remove_boilerplate
from pipeline.rules.extra import made_rules
from pipeline.rules.language import foreign_language, remove_foreign_lines
from pipeline.rules.normalize import MAX_ROUNDS, clean_text, rules_for
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import (
    Drop,
    bounds_of,
    has_no_letters,
    limits_for,
    quality,
    too_short,
    undecodable,
)


class Outcome(NamedTuple):
    """A cleaned text, how often each rule changed it, and why it is dropped if it is.

    A text rule counts once, however much it changed; masks and lines count each. `first_changes`
    has the text before and after the first change of each rule, for a reader.
    """

    text: str
    altered: dict[str, int]
    drop: Drop | None
    first_changes: dict[str, tuple[str, str]]


class DocumentRules:
    """The rules of one source. Law: `clean(clean(x).text).text == clean(x).text`."""

    def __init__(self, source: Source, config: CleanConfig) -> None:
        self._source, self._rules = source, (rules := config.rules_for(source.language))
        self._text_rules = rules_for(rules, source)
        line_rules: list[tuple[bool, str, Callable[[str, str], tuple[str, int]]]] = [
            (rules.remove_boilerplate, "boilerplate_removed", remove_boilerplate),
            (rules.remove_foreign_lines, "foreign_lines_removed", remove_foreign_lines),
        ]
        self._line_rules = tuple((name, rule) for wanted, name, rule in line_rules if wanted)
        self._extra_rules = made_rules(config.extra_rules, tuple(config.extra_code.items()))
        limits = limits_for(source.language, source.profile, rules.quality)
        self._bounds = bounds_of(limits)

    def clean(self, text: str) -> Outcome:
        """To a fixed point: a line that goes may leave blanks, or bring digits together.

        Ends as each round but the first follows one that masked digits or removed a line.
        """
        if lost := undecodable(text):
            return Outcome(text, {}, lost, {})
        counts: dict[str, int] = {}
        changes: dict[str, tuple[str, str]] = {}
        raw, again, num_rounds = text, True, 0
        while again:
            num_rounds += 1
            if num_rounds > MAX_ROUNDS and self._extra_rules:
                raise UserError(
                    "clean.extra_rules: they and the rules of cleaning undo each other's work, in "
                    f"a text that begins {text[:60]!r}"
                )
            before, altered, is_settled = clean_text(text, self._text_rules, changes)
            if not is_settled:
                detail = f"markup within markup, more than {MAX_ROUNDS} layers"
                return Outcome(raw, {}, Drop("nested_markup", detail), {})
            for name in altered:
                counts[name] = 1
            text = before
            if self._rules.mask_pii:
                text, kinds = mask_pii(before, self._source.language)
                for kind, num in kinds.items():
                    counts[f"{kind}_masked"] = counts.get(f"{kind}_masked", 0) + num
                    changes.setdefault(f"{kind}_masked", (before, text))
            for name, remove in self._line_rules:
                left, num_lines = remove(text, self._source.language)
                if num_lines:
                    counts[name] = counts.get(name, 0) + num_lines
                    changes.setdefault(name, (text, left))
                text = left
            for extra in self._extra_rules:
                if (kept := extra.apply(text, self._source.language)) is None:
                    drop = Drop(extra.name, "clean.extra_rules")
                    return Outcome(text, counts, drop, changes)
                if kept != text:
                    counts[extra.name] = 1
                    changes.setdefault(extra.name, (text, kept))
                text = kept
            again = text != before
        return Outcome(text, counts, self._drop(text), changes)

    def _drop(self, text: str) -> Drop | None:
        language = self._source.language
        return (
            too_short(text, self._rules.min_characters)
            or has_no_letters(text)
            or foreign_language(text, language, self._rules.min_language_fraction)
            or quality(text, language, self._bounds)
        )
