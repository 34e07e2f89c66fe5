"""Other vocabularies: read and extended."""

import json

import pytest

from electrify.config.vocab import VocabConfig
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import (
    build_tokenizer,
    check_extendable,
    load_reference,
    read_pieces,
    save_tokenizer,
)
from vocab.train import first_pieces_of

PIECES = ["[PAD]", "학교", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##에서", "a"]


WORDPIECE = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
}


@pytest.fixture
def folder(tmp_path):
    save_tokenizer(build_tokenizer(PIECES, lowercase=True), tmp_path, lowercase=True)
    return tmp_path


def test_a_folder_and_its_vocab_txt_alone_are_the_same_reference(folder):
    """In its own case, and special tokens in a document are text."""
    for _ in range(2):
        assert read_pieces(folder) == read_pieces(folder / "vocab.txt") == PIECES
        reference = load_reference(folder)
        assert reference.encode("학교에서 A").tokens == ["[CLS]", "학교", "##에서", "a", "[SEP]"]
        tokens = reference.encode("학교 [SEP]", add_special_tokens=False).tokens
        assert tokens == ["학교", "[UNK]", "[UNK]", "[UNK]"]
        (folder / "tokenizer.json").unlink(missing_ok=True)


def test_extension_keeps_the_ids_and_puts_new_tokens_behind(folder):
    options = VocabConfig(
        extend=str(folder), lowercase=True, num_unused=2, additional_special_tokens=("[USER]", "a")
    )
    assert first_pieces_of(options) == (*PIECES, "[USER]", "[unused0]", "[unused1]")
    assert first_pieces_of(VocabConfig()) == SPECIAL_TOKENS


def test_extension_refuses_another_case(folder):
    with pytest.raises(ValueError, match=r"do_lower_case = True; set vocab\.lowercase = true"):
        check_extendable(folder, lowercase=False)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", "[PAD]\n[UNK]\n", r"no \[CLS\], \[SEP\], \[MASK\]"),
        ("vocab.txt", "\n".join([*SPECIAL_TOKENS, "a", "a"]), "'a' stands twice"),
        ("tokenizer.json", "{", "is damaged"),
        ("tokenizer.json", {"model": WORDPIECE | {"vocab": {"a": "0"}}}, "is damaged"),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {}, "merges": []}}, "a BPE token"),
        ("tokenizer.json", {"model": WORDPIECE | {"vocab": {"a": 0, "b": 2}}}, "are not 0 to 1"),
        ("other.txt", "", "no vocabulary at"),
    ],
)
def test_what_is_no_vocabulary_is_named(tmp_path, name, content, message):
    text = json.dumps(content) if isinstance(content, dict) else content
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_pieces(tmp_path)
