"""One document on its way from the row of a source to the row of the corpus: all that looks at it.

`DocumentCleaner.clean_document` asks, in this order: which language is it in, what do the rules of
that language make of its text, which limit does the text break. `remove_benchmark_texts` looks at
many at once, for that costs less. What only all documents together tell, duplicates and repeated
lines, comes later and sees hashes alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from electrify.config.clean import CleanConfig, Source
from electrify.config.fields import UNDETERMINED, is_language, language_code
from electrify.system.outcome import UserError
from pipeline.decontaminate.match import BenchmarkIndex
from pipeline.documents import Row, note_change
from pipeline.report.counts import Tally
from pipeline.rules.boilerplate import remove_boilerplate
from pipeline.rules.extra import made_rules
from pipeline.rules.language import (
    PLAIN_FRACTION,
    foreign_language,
    language_meant,
    language_share,
    main_language,
    only_language,
)
from pipeline.rules.normalize import (
    MAX_ROUNDS,
    Changes,
    changed_part,
    clean_text,
    remove_lost_characters,
    text_rules_for,
)
from pipeline.rules.pii import mask_pii
from pipeline.rules.quality import (
    RULES,
    Drop,
    Statistics,
    bounds_of,
    broken_limit,
    has_letters,
    limits_for,
    too_short,
    undecodable,
)
from pipeline.sources.input_file import Fault, InputFile, Raw, place_of
from pipeline.sources.readers import read_file

_MUCH_LEFT = 0.8  # of a text: what was cut is no reason to ask for its language again
_CONTAMINATION = "contamination_removed"  # lines of a document that stays


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cleaned text, why it is dropped whatever the limits, and how often each rule changed it.

    A text rule counts once, however much it changed; masks and lines count each.
    """

    text: str
    drop: Drop | None
    changes: Changes


class DocumentRules:
    """The rules of one source and language. Law: `clean(clean(x).text).text == clean(x).text`."""

    def __init__(self, source: Source, config: CleanConfig) -> None:
        self.language, self.profile = source.language, source.profile
        self._rules = rules = config.rules_for(source.language)
        self._text_rules = text_rules_for(rules, source)
        self._extra_rules = made_rules(config.extra_rules, tuple(config.extra_code.items()))
        self._bounds = bounds_of(limits_for(source.language, source.profile, rules.quality))

    def clean(self, text: str) -> Outcome:
        """To a fixed point: a line that goes may leave blanks, or bring digits together.

        Ends as each round but the first follows one that masked digits or removed a line.
        """
        if lost := undecodable(text):
            return Outcome(text, lost, Changes())
        changes = Changes()
        raw, again, num_rounds = text, True, 0
        while again:
            num_rounds += 1
            if num_rounds > MAX_ROUNDS and self._extra_rules:
                names = ", ".join(rule.name for rule in self._extra_rules if rule.name in changes)
                raise UserError(
                    f"clean.extra_rules: after {MAX_ROUNDS} rounds {names} still changes a text "
                    f"that begins {text[:60]!r}: let it leave alone what it and the rules of "
                    "cleaning have made"
                )
            before = clean_text(text, self._text_rules, changes)
            if before is None:
                detail = f"markup within markup, more than {MAX_ROUNDS} layers"
                return Outcome(raw, Drop("nested_markup", detail), Changes())
            text = before
            if self._rules.mask_pii:
                text, kinds = mask_pii(before, self.language)
                for kind, num in kinds.items():
                    changes.note(f"{kind}_masked", "", "", num)
            if self._rules.remove_boilerplate:
                shorter, num_lines = remove_boilerplate(text, self.language)
                if num_lines:
                    changes.note("boilerplate_removed", text, shorter, num_lines)
                text = shorter
            for extra in self._extra_rules:
                if (kept := extra.apply(text, self.language)) is None:
                    return Outcome(text, Drop(extra.name, "clean.extra_rules"), changes)
                if kept != text:
                    changes.note(extra.name, text, kept)
                text = kept
            again = text != before
        return Outcome(text, None, changes)

    def broken_limit(self, text: str) -> Drop | None:
        """The first limit that a cleaned text breaks."""
        if drop := self.too_short(text):
            return drop
        if not has_letters(text):
            return Drop("no_letters", f"{len(text)} characters, no letter")
        if (min_fraction := self._rules.min_language_fraction) > 0:
            share = language_share(text, self.language, min_fraction > PLAIN_FRACTION)
            if share and (drop := foreign_language(share, min_fraction)):
                return drop
        return broken_limit(text, self.language, self._bounds)

    def too_short(self, text: str) -> Drop | None:
        return too_short(len(text), self._rules.min_characters)

    def limits(self) -> dict[str, float]:
        """The limits by option, for the report."""
        own = ("min_characters", "min_language_fraction")
        given = {name: float(getattr(self._rules, name)) for name in own}
        return given | {rule.limit: limit for rule, limit in self._bounds}

    def statistics(self, text: str) -> dict[str, float | None]:
        """Of a cleaned text all that a limit may be set on, for the report."""
        share = language_share(text, self.language, closely=False)
        own = {
            "min_characters": len(text),
            "min_language_fraction": share.fraction if share else None,
        }
        statistics = Statistics(text, self.language)
        return own | {rule.limit: statistics.value(rule) for rule in RULES}

    def shown(self, raw: str, outcome: Outcome) -> str:
        """A removed text without personal data: as it was read or, where markup might hide
        personal data in it, as it was cleaned."""
        masked, kinds = mask_pii(outcome.text, self.language)  # extra rules may have come after
        is_masked = any(name.endswith("_masked") for name in outcome.changes)
        return masked if kinds or is_masked else mask_pii(raw, self.language)[0]


class DocumentCleaner:
    """Cleans the documents of files by the rules of their sources, and counts what comes in."""

    def __init__(self, config: CleanConfig, tally: Tally) -> None:
        self._config, self._tally = config, tally
        self._rules: dict[tuple[int, str], DocumentRules] = {}

    def rules_of(self, source_index: int, language: str) -> DocumentRules:
        """The rules of a source for one of its languages."""
        key = source_index, language
        if key not in self._rules:
            source = self._config.sources[source_index].model_copy(update={"language": language})
            self._rules[key] = DocumentRules(source, self._config)
        return self._rules[key]

    def clean_file(self, file: InputFile) -> Iterator[Row]:
        """The rows of a file, each with the reason if it is removed.

        Raises `UserError` for a file that cannot be read.
        """
        source = self._config.sources[file.source_index]
        counts = {"documents": 0, "malformed": 0}
        for item in read_file(file, source, self._config.max_line_bytes):
            if isinstance(item, Fault):
                counts["malformed"] += 1
                yield self._malformed(file, item)
            else:
                counts["documents"] += 1
                yield self.clean_document(file, item)
        self._tally.files.append({"path": file.path} | counts)

    def clean_document(self, file: InputFile, raw: Raw) -> Row:
        """The row of a document: by which rules, its cleaned text, and which limit it breaks."""
        source = self._config.sources[file.source_index]
        language, outcome = self._outcome(file, raw)
        rules = self.rules_of(file.source_index, language)
        drop = outcome.drop
        if language == UNDETERMINED:
            drop = Drop("unknown_language", "no model is sure of one")
        row = _row(file, raw, language, _storable(raw.source) or source.name or file.stem)
        if drop is None:
            text = outcome.text
            self._tally.add_statistics(
                language,
                source.profile,
                row["rank"],
                len(text),
                rules.limits,
                partial(rules.statistics, text),
            )
            drop = rules.broken_limit(text)
        row["url"] = _storable(raw.url)
        row["licence"] = _storable(raw.licence or source.licence)
        for rule, lost in outcome.changes.lost.items():
            note_change(row, rule, lost)
        self._tally.count_document("in", len(raw.text), language, row["source"])
        if drop is None:
            self._show_changes(row, outcome.changes)
            return row | {"text": outcome.text}
        shown = _storable(rules.shown(raw.text, outcome)) or ""
        row |= {"text": shown, "reason": drop.reason, "detail": drop.detail}
        self._tally.add_removed("removed", row, len(raw.text))
        return row

    def _show_changes(self, row: Row, changes: Changes) -> None:
        """Let the report show what rules changed, of few documents."""
        for rule, (before, after) in changes.first.items():
            show = partial(_changed, before, after)
            self._tally.add_example(rule, row["rank"], show, row["language"])

    def _outcome(self, file: InputFile, raw: Raw) -> tuple[str, Outcome]:
        """The language of a document, and its text by the rules of that language.

        It is the one of the source's languages that the row names or, if it names none of them,
        that the text is in; else the source's first. The text is asked again when rules have taken
        much of it: a short page in much markup.
        """
        source = self._config.sources[file.source_index]
        is_any = source.language == "auto"
        own = UNDETERMINED if is_any else source.language
        languages = (own, *source.other_languages)

        def language_of(text: str, otherwise: str) -> str:
            if is_any:
                return main_language(text) or otherwise
            if len(languages) == 1:
                return otherwise
            main = main_language(text)
            if main and (meant := language_meant(main, languages)):
                return meant
            # none of them by the models, which may not know; the limit on the language decides
            return only_language(text, languages) or otherwise

        named = raw.language and language_code(raw.language)
        if named and (is_language(named) if is_any else named in languages):
            return named, self.rules_of(file.source_index, named).clean(raw.text)
        language = language_of(raw.text, own)
        outcome = self.rules_of(file.source_index, language).clean(raw.text)
        if len(outcome.text) < _MUCH_LEFT * len(raw.text):
            again = language_of(outcome.text, language)
            if again != language:
                language = again
                outcome = self.rules_of(file.source_index, language).clean(raw.text)
        return language, outcome

    def _malformed(self, file: InputFile, fault: Fault) -> Row:
        source = self._config.sources[file.source_index]
        language = UNDETERMINED if source.language == "auto" else source.language
        where = file.where(fault.row, fault.offset)
        detail = mask_pii(_storable(fault.detail) or "", language)[0]
        if fault.reason == "unreadable_file" and self._config.damaged_files == "stop":
            raise UserError(
                f"{where}: {detail}. Repair the file, take it out of the sources, or set "
                'clean.damaged_files = "keep" to take what can be read of it'
            )
        row = _row(file, fault, language, source.name or file.stem) | {
            "text": mask_pii(fault.text, language)[0],
            "reason": fault.reason,
            "detail": f"{where}: {detail}",
        }
        self._tally.add_removed("malformed", row)
        self._tally.add_fault(f"{where}: {fault.reason}: {detail}")
        return row

    def remove_benchmark_texts(self, rows: Sequence[Row], index: BenchmarkIndex) -> None:
        """Take texts of benchmarks out of the rows that are kept, or mark a row as removed."""
        rows = [row for row in rows if row["reason"] is None]
        results = index.decontaminate([row["text"] for row in rows])
        for row, result in zip(rows, results, strict=True):
            if not result.matches:
                continue
            self._tally.add_decontaminated(result, row["language"])
            rules = self.rules_of(place_of(row["rank"])[0], row["language"])
            drop = result.drop
            if drop is None:
                lost = len(row["text"]) - len(result.text)
                note_change(row, _CONTAMINATION, lost)
                show = partial(_changed, row["text"], result.text)
                self._tally.add_example(_CONTAMINATION, row["rank"], show, row["language"])
                drop = rules.too_short(result.text)
            else:
                drop = replace(drop, detail=mask_pii(drop.detail, row["language"])[0])
            if drop is None:
                row["text"] = result.text
                continue
            num_characters = len(row["text"])
            shown = mask_pii(row["text"], row["language"])[0]  # where rules leave personal data
            row |= {"text": shown, "reason": drop.reason, "detail": drop.detail}
            self._tally.add_removed("removed", row, num_characters)


def _row(file: InputFile, item: Raw | Fault, language: str, source: str) -> Row:
    return {
        "rank": file.first_rank + item.row,
        "language": language,
        "source": source,
        "source_id": _storable(item.source_id),
        "reason": None,
        "detail": None,
        "altered": None,
    }


def _changed(before: str, after: str) -> str:
    return _storable(changed_part(before, after).strip()) or ""


def _storable(text: str | None) -> str | None:
    """The text in UTF-8, which cannot hold lone surrogates; None of an empty one."""
    return (text if not text or text.isascii() else remove_lost_characters(text)) or None
