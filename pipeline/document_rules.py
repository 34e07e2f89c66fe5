"""All rules of one source in their order: what changes a text, then what drops it."""

from collections import Counter
from dataclasses import dataclass

from electrify.config_clean import CleanConfig, CleanRules, Source
from pipeline.boilerplate import remove_boilerplate
from pipeline.filters import Drop, too_short, undecodable
from pipeline.langid import foreign_language, remove_foreign_lines
from pipeline.normalize import clean_text, rules_for
from pipeline.pii import mask_pii
from pipeline.quality import has_no_letters, quality
from pipeline.quality_rules import limits_for


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cleaned text, how often each rule changed it, and why it is dropped if it is.

    Of a text rule one counts, however much it changed; of masks and lines each one.
    """

    text: str
    altered: dict[str, int]
    drop: Drop | None


class DocumentRules:
    """The rules of one source. Law: `clean(clean(x).text).text == clean(x).text`."""

    def __init__(self, source: Source, rules: CleanRules) -> None:
        self._source, self._rules = source, rules
        self._text_rules = rules_for(rules, source)
        self._limits = limits_for(source.language, source.profile, rules.quality)

    def __reduce__(self) -> tuple[type["DocumentRules"], tuple[Source, CleanRules]]:
        """Pickled as its options: the text rules may be closures."""
        return DocumentRules, (self._source, self._rules)

    def clean(self, text: str) -> Outcome:
        """Clean a text as it was read."""
        if lost := undecodable(text):
            return Outcome(text, {}, lost)
        text, altered = self._change(text)
        return Outcome(text, altered, self._drop(text))

    def _change(self, text: str) -> tuple[str, dict[str, int]]:
        """To a fixed point: a line that goes may leave blanks, or bring digits together.

        Ends as each round that starts has masked digits or removed a line.
        """
        counts: Counter[str] = Counter()
        before = None
        while text != before:
            cleaned = clean_text(text, self._text_rules)
            for name in cleaned.altered:
                counts[name] = 1
            before = cleaned.text
            text = self._mask_and_cut(before, counts)
        return text, dict(counts)

    def _mask_and_cut(self, text: str, counts: Counter[str]) -> str:
        language = self._source.language
        if self._rules.mask_pii:
            text, num_masked = mask_pii(text, language)
            counts.update({f"{kind}_masked": num for kind, num in num_masked.items()})
        if self._rules.remove_boilerplate:
            text, num_lines = remove_boilerplate(text, language)
            if num_lines:
                counts["boilerplate_removed"] += num_lines
        if self._rules.remove_foreign_lines:
            text, num_lines = remove_foreign_lines(text, language)
            if num_lines:
                counts["foreign_lines_removed"] += num_lines
        return text

    def _drop(self, text: str) -> Drop | None:
        language = self._source.language
        return (
            too_short(text, self._rules.min_characters)
            or has_no_letters(text)
            or foreign_language(text, language, self._rules.min_language_fraction)
            or quality(text, language, self._limits)
        )


def document_rules(source: Source, config: CleanConfig) -> DocumentRules:
    """The rules for the documents of a source, as the config has them for its language."""
    return DocumentRules(source, config.rules_for(source.language))
