"""Templates in which only the word of a group changes; `ko.toml` and `en.toml` hold them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from electrify.storage.files import read_toml

SIDES = ("good", "bad")  # of a pair of templates, in this order
_SLOT = "{}"


@dataclass(frozen=True)
class Axis:
    """Groups to compare with one another."""

    name: str
    words: tuple[tuple[str, str], ...]  # (group, word)
    prefix: str
    suffix: str

    @property
    def groups(self) -> tuple[str, ...]:
        """Each once, in their order."""
        return tuple(dict.fromkeys(group for group, _ in self.words))


@dataclass(frozen=True)
class Sentence:
    """A template filled with a word, which stands at [start, end)."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Templates:
    """All of a language."""

    language: str
    pairs: tuple[tuple[str, str], ...]
    axes: tuple[Axis, ...]
    named: Mapping[str, str]  # by group a regular expression of what names it

    def sentences(self, axis: Axis) -> Iterator[tuple[int, int, int, Sentence]]:
        """Number of the word, of the pair, of the side, and the sentence."""
        for number, (_, word) in enumerate(axis.words):
            for pair, sides in enumerate(self.pairs):
                for side, template in enumerate(sides):
                    before, after = template.split(_SLOT)
                    start = len(before + axis.prefix)
                    text = before + axis.prefix + word + axis.suffix + after
                    yield number, pair, side, Sentence(text, start, start + len(word))


@cache
def read_templates(language: str) -> Templates:
    """Those of "ko" or "en"."""
    given = read_toml(Path(__file__).with_name(f"{language}.toml"))
    axes = tuple(
        Axis(
            name,
            tuple((group, word) for group, words in axis["groups"].items() for word in words),
            axis.get("prefix", ""),
            axis.get("suffix", ""),
        )
        for name, axis in given["axes"].items()
    )
    return Templates(language, tuple(map(tuple, given["pairs"])), axes, given["named"])
