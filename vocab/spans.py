"""Answers and named entities as spans of text, and how many of them pieces can mark.

A head that marks a span by its first and last piece cannot score above the share of spans whose
ends fall on borders of pieces: the span-alignment ceiling. Files are the official ones of SQuAD,
KorQuAD and KLUE-MRC (json) and of KLUE-NER (tsv of characters).
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from electrify.json_text import read_json
from vocab.tokenizer import UNK

_JSON_NAMES = ("*mrc*dev*.json", "[Kk]or[Qq]u[Aa][Dd]*dev*.json", "dev-v*.json", "xquad.*.json")
_NER_NAMES = ("*ner*dev*.tsv",)
_TEXTS = 256  # encoded at once


class SpanText(NamedTuple):
    """A text with spans [start, end) of its characters."""

    text: str
    spans: list[tuple[int, int]]


def find_span_files(folder: Path) -> list[Path]:
    """Files of known names under the folder; `ValueError` if there is none."""
    names = (*_JSON_NAMES, *_NER_NAMES)
    found = sorted({path for name in names for path in folder.rglob(name)})
    if not found:
        raise ValueError(f"vocab.span_data_dir = {str(folder)!r}: no file {', '.join(names)} in it")
    return found


def read_spans(path: Path) -> list[SpanText]:
    """The texts of one file; `ValueError` if it is not of the format of its name."""
    try:
        if path.suffix == ".tsv":
            return list(_read_ner(path.read_text(encoding="utf-8")))
        return list(_read_answers(read_json(path)))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: not in the official format ({error!r})") from None


def _read_answers(data: Any) -> Iterator[SpanText]:
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            text, spans = paragraph["context"], set()
            if not isinstance(text, str):
                raise TypeError(f"a context is {type(text).__name__}, not text")
            for question in paragraph["qas"]:
                if question.get("is_impossible"):
                    continue  # its answers, if any, are only plausible
                for answer in question["answers"]:
                    start, end = (
                        answer["answer_start"],
                        answer["answer_start"] + len(answer["text"]),
                    )
                    if text[start:end] == answer["text"] != "":
                        spans.add((start, end))
            yield SpanText(text, sorted(spans))


def _read_ner(text: str) -> Iterator[SpanText]:
    for block in text.replace("\r\n", "\n").split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line.count("\t") == 1]
        rows = [row for row in rows if not row[0].startswith("## ")]
        characters, tags = [row[0] for row in rows], [row[1].strip() for row in rows]
        if characters:
            yield SpanText("".join(characters), list(_entities(characters, tags)))


def _entities(characters: Sequence[str], tags: Sequence[str]) -> Iterator[tuple[int, int]]:
    position, start = 0, None
    for character, tag in zip(characters, tags, strict=True):
        if start is not None and not tag.startswith("I-"):
            yield start, position
            start = None
        if tag.startswith("B-"):
            start = position
        position += len(character)
    if start is not None:
        yield start, position


def span_report(tokenizer: Any, texts: Iterable[SpanText]) -> dict[str, float | int]:
    """Shares of spans that begin, end, and both at borders of pieces; pieces a word; [UNK]."""
    listed = list(texts)
    found = dict.fromkeys(("spans", "starts", "ends", "both", "words", "pieces", "unknown"), 0)
    for first in range(0, len(listed), _TEXTS):
        part = listed[first : first + _TEXTS]
        encodings = tokenizer.encode_batch([of.text for of in part], add_special_tokens=False)
        for of, encoding in zip(part, encodings, strict=True):
            _count_spans(of, encoding, found)
    spans, words = max(1, found["spans"]), max(1, found["words"])
    return {
        "num_spans": found["spans"],
        "span_ceiling": round(found["both"] / spans, 6),
        "start_ceiling": round(found["starts"] / spans, 6),
        "end_ceiling": round(found["ends"] / spans, 6),
        "pieces_per_word": round(found["pieces"] / words, 6),
        "unk_piece_fraction": round(found["unknown"] / max(1, found["pieces"]), 6),
    }


def _count_spans(of: SpanText, encoding: Any, found: dict[str, int]) -> None:
    starts = {start for start, _ in encoding.offsets}
    ends = {end for _, end in encoding.offsets}
    found["words"] += len(of.text.split())
    found["pieces"] += len(encoding.ids)
    found["unknown"] += encoding.tokens.count(UNK)
    for start, end in of.spans:
        found["spans"] += 1
        found["starts"] += start in starts
        found["ends"] += end in ends
        found["both"] += start in starts and end in ends
