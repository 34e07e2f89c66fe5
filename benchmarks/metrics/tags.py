"""Sequence tagging as KLUE-NER has it: one label a character, predicted one a word piece.

KLUE-baseline klue_baseline/models/named_entity_recognition.py and data/klue_ner.py. A piece learns
the label of its first character, [CLS] and [SEP] learn "O". A predicted B- of a piece means B- on
its first character and I- on the rest. Blanks are not scored, and every sentence stands between
the predictions of the first and the last position of its padded row, gold "O".

Two differences from that code. Characters are found by the tokenizer's offsets, where it loses
some beside an [UNK] (KLUE-baseline issue 9). Characters cut off by the maximum length count as
predicted "O", where it does not score them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

OUTSIDE = "O"
Tags = NDArray[np.int64]
Span = tuple[int, int]  # characters of a piece: first, and behind the last


@dataclass(frozen=True)
class Sentence:
    """One sentence of a file: its id, its characters and the label of each."""

    id: str
    text: str
    labels: tuple[str, ...]


def read_sentences(path: Path, text: str) -> Iterator[tuple[int, Sentence]]:
    """(line number, sentence) of a file with a character, a tab and a label a line.

    A "## id" line stands before each sentence and a blank line behind it. Raises `ValueError` with
    file and line for a line of another form and for a sentence without an id.
    """
    identity, characters, labels, start = "", [], [], 0
    lines = [*text.split("\n"), ""]
    for number, line in enumerate(lines, start=1):
        character, tab, label = line.partition("\t")
        if line.startswith("##"):
            identity = line[2:].strip().split("\t")[0]
        elif tab and len(character) == 1:
            start = start or number
            characters.append(character)
            labels.append(label.rstrip("\r"))
        elif line.rstrip("\r"):
            raise ValueError(
                f"{path} line {number}: {line[:40]!r} is not a character, a tab and a label"
            )
        elif characters:
            if not identity:
                raise ValueError(f"{path} line {start}: the sentence has no '## id' line before it")
            yield start, Sentence(identity, "".join(characters), tuple(labels))
            identity, characters, labels, start = "", [], [], 0


def piece_tags(tags: Sequence[int], spans: Sequence[Span], outside: int) -> Tags:
    """The label of each piece's first character; `outside` for pieces of no character."""
    return np.array([tags[first] if last > first else outside for first, last in spans], np.int64)


def character_tags(
    predicted: Sequence[int], spans: Sequence[Span], num_characters: int, inside: Sequence[int]
) -> Tags:
    """Labels of the characters from those of the pieces; `inside[label]` goes on with a label.

    The last of `inside` is the label of characters that no piece covers.
    """
    tags = np.full(num_characters, inside[-1], dtype=np.int64)
    for label, (first, last) in zip(predicted, spans, strict=True):
        if last > first:
            tags[first:last] = inside[label]
            tags[first] = label
    return tags


def inside_labels(labels: Sequence[str]) -> list[int]:
    """For each label the one that goes on with it: B-PS and I-PS give I-PS, O gives O.

    The last entry is that of O, which stands last among the labels.
    """
    return [
        labels.index("I" + label[1:]) if label[0] == "B" else n for n, label in enumerate(labels)
    ]


def framed(tags: Tags, text: str, first: int, last: int) -> Tags:
    """Labels as they are scored: without those of blanks, between the two of the frame."""
    is_scored = np.array([not character.isspace() for character in text], dtype=bool)
    return np.concatenate(([first], tags[is_scored], [last])).astype(np.int64)


def one_label(lines: Sequence[Mapping[str, Any]]) -> str | None:
    """The label predicted everywhere in all lines where gold labels differ; None if nothing."""
    predicted = {str(label) for line in lines for label in line["prediction"]}
    if len(predicted) > 1 or len({label for line in lines for label in line["gold"]}) < 2:
        return None
    return predicted.pop()


def text_entities(tags: Sequence[str], text: str) -> set[tuple[str, int, int]]:
    """`entities` of the labels of a text's characters, blanks left out as they are not scored."""
    kept = [place for place, character in enumerate(text) if not character.isspace()]
    found = entities([tags[place] for place in kept])
    return {(kind, kept[start], kept[end - 1] + 1) for kind, start, end in found}


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """(type, start, end) of each B- with the I- of its type behind it: strict IOB2.

    An I- with neither in front of it is no entity (seqeval, mode "strict", scheme IOB2).
    """
    found, start, kind = set(), -1, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        if kind and tag != f"I-{kind}":
            found.add((kind, start, index))
            kind = ""
        if tag.startswith("B-"):
            start, kind = index, tag[2:]
    return found
