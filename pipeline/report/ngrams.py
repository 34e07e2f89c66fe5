"""Frequent runs of words of each language, of some of the documents, in bounded memory.

One document of `_EACH` is counted, until there are `_MOST_CHARACTERS` of an output. Which these are
depends on the documents alone, so the counts are the same on any runner.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from pipeline.report.counts import NUM_NGRAMS, sample_number
from pipeline.rules.pii import mask_pii
from pipeline.rules.scripts import has_spaces

_NUM_SENT = 4 * NUM_NGRAMS  # by an output: one that is frequent in all is frequent in most
_WORDS, _CHARACTERS = 3, 6
_EACH = 8
_MOST_CHARACTERS = 2_000_000


class NGrams:
    """Counts of the documents of one output."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        self._left = _MOST_CHARACTERS

    def wants(self, label: str) -> bool:
        return self._left > 0 and sample_number(label) % _EACH == 0

    def add(self, text: str, language: str) -> None:
        text = text[: self._left]
        self._left -= len(text)
        counts = self._counts[language]
        for line in text.split("\n"):
            units = line.split() if has_spaces(language) else line
            length = _WORDS if has_spaces(language) else _CHARACTERS
            counts.update(zip(*(units[start:] for start in range(length)), strict=False))

    def frequent(self) -> Iterator[tuple[str, str, int]]:
        """(language, run, how often) of the most frequent that stand more than once, masked."""
        for language, counts in self._counts.items():
            joint = " " if has_spaces(language) else ""
            repeated = [(-count, units) for units, count in counts.items() if count > 1]
            for count, units in sorted(repeated)[:_NUM_SENT]:
                yield language, mask_pii(joint.join(units), language)[0], -count
