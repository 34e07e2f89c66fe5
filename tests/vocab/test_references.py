import json

import pytest

from electrify.config.vocab import VocabConfig
from vocab.compare import check_extendable, load_reference, read_pieces
from vocab.tokenizer import build_tokenizer, save_tokenizer
from vocab.train import training_of
from vocab.wordpiece.learn import SPECIAL_TOKENS

PIECES = ["[PAD]", "학교", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##에서", "a"]


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
    ("name", "text", "message"),
    [
        ("vocab.txt", "[PAD]\n[UNK]\n", r"no \[CLS\], \[SEP\], \[MASK\]"),
        ("vocab.txt", "\n".join([*SPECIAL_TOKENS, "a", "a"]), "'a' stands twice"),
        ("tokenizer.json", "{", "is damaged"),
        ("tokenizer.json", json.dumps({"model": {"type": "BPE", "vocab": {}}}), "a BPE tokenizer"),
        (
            "tokenizer.json",
            json.dumps({"model": {"type": "WordPiece", "vocab": {"a": 0, "b": 2}}}),
            "ids are not 0 to 1",
        ),
        ("other.txt", "", "no vocabulary at"),
    ],
)
def test_what_is_no_vocabulary_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_pieces(tmp_path)
