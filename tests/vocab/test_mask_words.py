"""What stands for personal data is one piece, wherever it stands."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from pipeline.rules.pii import KINDS
from vocab.pretokenize import MASK_WORDS
from vocab.shards.word_encoder import WordEncoder
from vocab.tokenizer import build_tokenizer, load_tokenizer, save_tokenizer
from vocab.wordpiece.merges import SPECIAL_TOKENS

LETTERS = "abemil가로문의:<>,.!"
PIECES = [*SPECIAL_TOKENS, *MASK_WORDS, *LETTERS, *("##" + c for c in "abemil가로문의")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab")
    save_tokenizer(build_tokenizer(PIECES, False), path, False)
    return path


def test_they_are_the_masks_of_the_corpus_stage():
    assert {f"<{kind}>" for kind in KINDS} == set(MASK_WORDS)


@pytest.mark.parametrize("word", MASK_WORDS)
@pytest.mark.parametrize("text", ["{}", "문의:{}로", "a {}, {}{}.", "\n{}\t가"])
def test_one_id_in_the_tokenizer_the_encoder_and_transformers(folder, word, text):
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    text = text.replace("{}", word)
    ids = ours.encode(text, add_special_tokens=False).ids
    assert ids.count(ours.token_to_id(word)) == text.count(word)
    assert theirs(text, add_special_tokens=False)["input_ids"] == ids
    found = np.frombuffer(WordEncoder(ours).encode([text])[0], np.uint16)
    assert found.tolist() == ids


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*LETTERS, " ", "\n", *MASK_WORDS[:3], "<email", "email>"])))
def test_beside_anything_the_encoder_agrees_with_the_tokenizer(folder, parts):
    text = "".join(parts)
    tokenizer = load_tokenizer(folder)
    found = np.frombuffer(WordEncoder(tokenizer).encode([text])[0], np.uint16)
    assert found.tolist() == tokenizer.encode(text, add_special_tokens=False).ids


def test_they_are_text_and_no_special_tokens(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert not {*MASK_WORDS} & {*tokenizer.all_special_tokens}
    ids = tokenizer("문의 <email> [MASK]")["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "문의 <email>"


def test_without_their_pieces_they_are_split(folder):
    tokenizer = build_tokenizer([piece for piece in PIECES if piece not in MASK_WORDS], False)
    assert tokenizer.encode("<a>").tokens == ["[CLS]", "<", "a", ">", "[SEP]"]
    assert tokenizer.encode("<email>").tokens[1] == "<"
