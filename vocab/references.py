"""Other vocabularies: to compare with, and to extend."""

from pathlib import Path
from typing import Any

from electrify.json_text import read_json
from vocab.tokenizer import TOKENIZER_FILE, build_tokenizer, read_tokenizer
from vocab.wordpiece import SPECIAL_TOKENS


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
