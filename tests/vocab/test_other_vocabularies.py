"""Other vocabularies: read and extended."""

import json

import pytest
from transformers import AutoTokenizer

from electrify.config.vocab import VocabConfig
from vocab.tokenizer import (
    build_tokenizer,
    check_extendable,
    is_lowercase,
    load_reference,
    load_tokenizer,
    read_pieces,
    save_tokenizer,
)
from vocab.train import training_of
from vocab.wordpiece.merges import SPECIAL_TOKENS

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


def test_pieces_come_by_id_from_a_folder_or_a_file(folder):
    assert read_pieces(folder) == read_pieces(folder / "vocab.txt") == PIECES
    (folder / "tokenizer.json").unlink()
    assert read_pieces(folder) == PIECES


def test_a_reference_tokenises_with_its_own_case(folder):
    expected = ["[CLS]", "학교", "##에서", "a", "[SEP]"]
    assert load_reference(folder).encode("학교에서 A").tokens == expected
    (folder / "tokenizer.json").unlink()
    assert load_reference(folder).encode("학교에서 A").tokens == expected


def test_special_tokens_in_a_document_are_text_to_a_reference(folder):
    for _ in range(2):  # from tokenizer.json, then from vocab.txt
        tokens = load_reference(folder).encode("학교 [SEP]", add_special_tokens=False).tokens
        assert tokens == ["학교", "[UNK]", "[UNK]", "[UNK]"]
        (folder / "tokenizer.json").unlink(missing_ok=True)


def test_tokens_that_transformers_added_keep_their_ids(folder, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<x>"])
    tokenizer.save_pretrained(tmp_path / "again")
    assert read_pieces(tmp_path / "again") == [*PIECES, "<x>"]


def test_extension_keeps_the_ids_and_puts_new_tokens_behind(folder):
    options = VocabConfig(
        extend=str(folder), lowercase=True, num_unused=2, additional_special_tokens=("[USER]", "a")
    )
    first = training_of(options).first_pieces
    assert first == (*PIECES, "[USER]", "[unused0]", "[unused1]")
    assert training_of(VocabConfig()).first_pieces == SPECIAL_TOKENS


def test_extension_refuses_another_case(folder):
    with pytest.raises(ValueError, match=r"do_lower_case = True; set vocab\.lowercase = true"):
        check_extendable(folder, lowercase=False)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", "[PAD]\n[UNK]\n", r"no \[CLS\], \[SEP\], \[MASK\]"),
        ("vocab.txt", "\n".join([*SPECIAL_TOKENS, "a", "a"]), "'a' stands twice"),
        ("vocab.txt", b"[PAD]\n\xff\n", r"vocab\.txt is not UTF-8"),
        ("tokenizer.json", "{", "is damaged"),
        ("tokenizer.json", {"model": []}, "is damaged"),
        ("tokenizer.json", {"model": WORDPIECE | {"vocab": {"a": "0"}}}, "is damaged"),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {}, "merges": []}}, "a BPE token"),
        ("tokenizer.json", {"model": WORDPIECE | {"vocab": {"a": 0, "b": 2}}}, "are not 0 to 1"),
        ("other.txt", "", "no vocabulary at"),
    ],
)
def test_what_is_no_vocabulary_is_named(tmp_path, name, content, message):
    text = json.dumps(content) if isinstance(content, dict) else content
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message):
        read_pieces(tmp_path)


def test_a_config_beside_that_is_no_object_says_nothing(folder):
    (folder / "tokenizer_config.json").write_text("3")
    assert is_lowercase(folder) is None
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer_config\.json is not valid JSON"):
        is_lowercase(folder)


def test_a_tokenizer_at_which_the_library_panics_is_damaged(folder):
    path = folder / "tokenizer.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    broken = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    value["normalizer"]["normalizers"].append(broken)
    path.write_text(json.dumps(value), encoding="utf-8")
    for load in (load_tokenizer, load_reference):
        with pytest.raises(ValueError, match=r"tokenizer\.json is damaged"):
            load(folder)
