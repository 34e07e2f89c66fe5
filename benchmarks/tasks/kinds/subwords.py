"""How a tokenizer writes its pieces: where a word goes on, where one begins, and back to text."""

from collections.abc import Sequence
from typing import Any

WORD_START = "▁"  # sentencepiece: stands in place of the blank before a word

# `clean_up_tokenization` of transformers 3.5.1, in its order
_CLEAN_UP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


def continuation_prefix(tokenizer: Any) -> str | None:
    """The "##" of a WordPiece tokenizer; None for any other."""
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    return getattr(model, "continuing_subword_prefix", None) or None


def starts_words(tokenizer: Any) -> bool:
    """Whether words begin with `WORD_START`, as those of XLM-R and other sentencepiece models."""
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    return type(model).__name__ == "Unigram"


def joined(pieces: Sequence[str], prefix: str) -> str:
    """WordPiece pieces as text, as the BERT tokenizer of transformers 3.5.1 decodes them.

    A blank between words, then the blanks before English punctuation and contractions taken out.
    """
    text = " ".join(pieces).replace(f" {prefix}", "").strip()
    for old, new in _CLEAN_UP:
        text = text.replace(old, new)
    return text
