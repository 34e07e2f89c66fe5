"""Other vocabularies: to compare with, and to extend.

One measure is the span-alignment ceiling. A head that marks a span by its first and last piece
cannot score above the share of spans whose ends fall on borders of pieces. Files of spans are the
official ones of SQuAD, KorQuAD and KLUE-MRC (json) and of KLUE-NER (tsv of characters).
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from electrify.storage.files import read_json
from vocab.tokenizer import TOKENIZER_FILE, UNK, build_tokenizer, read_tokenizer
from vocab.wordpiece.learn import SPECIAL_TOKENS


def read_pieces(path: Path) -> list[str]:
    """The pieces of a WordPiece vocabulary by id, from a tokenizer folder or a vocab.txt.

    `ValueError` if there is none, if a piece stands twice or an id is missing, or if one of BERT's
    special tokens is not there.
    """
    pieces = _from_json(path / TOKENIZER_FILE) or _from_text(_vocab_txt(path))
    if len(set(pieces)) < len(pieces):
        twice = next(piece for index, piece in enumerate(pieces) if piece in pieces[:index])
        raise ValueError(f"{path}: the piece {twice!r} stands twice; give a valid vocabulary")
    if missing := [token for token in SPECIAL_TOKENS if token not in pieces]:
        raise ValueError(
            f"{path}: no {', '.join(missing)} among its {len(pieces)} pieces, so it is no BERT or "
            "ELECTRA vocabulary; give another folder or vocab.txt"
        )
    return pieces


def is_lowercase(path: Path) -> bool | None:
    """Whether the vocabulary is for lower-cased text; None if nothing beside it says so."""
    config = (path if path.is_dir() else path.parent) / "tokenizer_config.json"
    if not config.is_file():
        return None
    options = read_json(config)
    found = options.get("do_lower_case") if isinstance(options, dict) else None
    return found if isinstance(found, bool) else None


def load_reference(path: Path) -> Any:
    """The tokenizer of a folder with tokenizer.json; of a vocab.txt, one normalised as ours."""
    if (path / TOKENIZER_FILE).is_file():
        tokenizer = read_tokenizer(path / TOKENIZER_FILE)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer
    return build_tokenizer(read_pieces(path), bool(is_lowercase(path)))


def check_extendable(path: Path, lowercase: bool) -> list[str]:
    """The pieces of `vocab.extend`; `ValueError` if its case is not the config's."""
    theirs = is_lowercase(path)
    if theirs is not None and theirs != lowercase:
        raise ValueError(
            f"vocab.extend = {str(path)!r} has do_lower_case = {theirs}; "
            f"set vocab.lowercase = {str(theirs).lower()}"
        )
    return read_pieces(path)


def _vocab_txt(path: Path) -> Path:
    file = path / "vocab.txt" if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"no vocabulary at {path}: give a folder with vocab.txt, or the file")
    return file


def _from_text(file: Path) -> list[str]:
    try:
        lines = file.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: {error}; give a vocabulary of text") from None
    if lines and not lines[-1]:
        lines.pop()
    return [line.rstrip("\r") for line in lines]


def _from_json(file: Path) -> list[str]:
    if not file.is_file():
        return []
    try:
        model = read_json(file)["model"]
        vocabulary = model["vocab"]
        kind = model.get("type", "WordPiece")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{file} is damaged: it holds no model with a vocabulary") from None
    if kind != "WordPiece" or not isinstance(vocabulary, dict):
        raise ValueError(f"{file} is a {kind} tokenizer; only WordPiece can be read here")
    if not all(isinstance(index, int) for index in vocabulary.values()):
        raise ValueError(f"{file}: an id in it is no whole number")
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[piece] for piece in pieces] != list(range(len(pieces))):
        raise ValueError(f"{file}: its ids are not 0 to {len(pieces) - 1}")
    return pieces


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
