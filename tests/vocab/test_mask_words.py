"""What stands for personal data is one piece, wherever it stands."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from pipeline.rules.pii import KINDS
from vocab.pretokenize import MASK_WORDS
from vocab.segment import SPECIAL_TOKENS
from vocab.shards.word_encoder import WordEncoder
from vocab.tokenizer import build_tokenizer, load_tokenizer, save_tokenizer

LETTERS = "abemil가로문의:<>,.!"
PIECES = [*SPECIAL_TOKENS, *MASK_WORDS, *LETTERS, *("##" + c for c in "abemil가로문의")]
PARTS = [*LETTERS, " ", "\n", "\t", *MASK_WORDS, "<email", "email>"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """As we load it, and as `transformers` does."""
    path = tmp_path_factory.mktemp("vocab")
    save_tokenizer(build_tokenizer(PIECES, False), path, False)
    return load_tokenizer(path), AutoTokenizer.from_pretrained(path)


@settings(max_examples=200)
@given(st.lists(st.sampled_from(PARTS)).map("".join))
@example("".join(MASK_WORDS) + "문의:<email>로\n<phone>\t가")
def test_one_id_in_the_tokenizer_the_encoder_and_transformers(tokenizers, text):
    ours, theirs = tokenizers
    ids = ours.encode(text, add_special_tokens=False).ids
    for word in MASK_WORDS:
        assert ids.count(ours.token_to_id(word)) == text.count(word)
    assert theirs(text, add_special_tokens=False)["input_ids"] == ids
    assert np.frombuffer(WordEncoder(ours).encode([text])[0], np.uint16).tolist() == ids


def test_they_are_the_masks_of_the_corpus_stage():
    assert {f"<{kind}>" for kind in KINDS} == set(MASK_WORDS)
