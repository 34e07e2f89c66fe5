"""The tokenizer as `transformers` opens it; masks of personal data; vocabularies of others."""

import itertools
import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from electrify.config.vocab import VocabConfig
from pipeline.rules.pii import KINDS
from tests.vocab.conftest import batches_of, count_words, marked, vocab_options
from vocab.encode import WordEncoder
from vocab.learn import train_wordpiece
from vocab.pretokenize import MASK_WORDS
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import (
    build_tokenizer,
    check_extendable,
    load_tokenizer,
    read_pieces,
    save_tokenizer,
)
from vocab.train import first_pieces_of

SPECIAL_NAMES = ("pad", "unk", "cls", "sep", "mask")
EXTRA = ["École café CAFÉ", "漢字と한글 「가」", "좋아요👍🏻 🙂🙂가", "₩100 50% a_b"]
TEXTS = [
    "안녕하세요, 학교에서 공부했다.",
    "The students were reading [MASK] in École café.",
    "漢字 좋아요👍🏻🙂 zero\u200bwidth\tt\x00ab",
    "쀍 [SEP] 한국어를 ㅋㅋㅋ",
    "",
]


def build(documents, lowercase=False):
    words = count_words([text for _, text in documents] + EXTRA, lowercase)
    options = vocab_options(640, lowercase=lowercase)
    return build_tokenizer(train_wordpiece(batches_of(marked(words)), options), lowercase)


@pytest.fixture(scope="module", params=[False, True], ids=["cased", "lowercase"])
def folder(request, documents, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab")
    save_tokenizer(build(documents, request.param), path, request.param)
    return path


def test_transformers_opens_the_folder_with_equal_ids(folder):
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    for form, text in itertools.product(("NFC", "NFD"), TEXTS):
        encoding = ours.encode(unicodedata.normalize(form, text))
        assert theirs(unicodedata.normalize(form, text))["input_ids"] == encoding.ids
        assert theirs.tokenize(text) == encoding.tokens[1:-1]
        assert ours.encode(unicodedata.normalize("NFC", text)).ids == encoding.ids
    assert [getattr(theirs, f"{name}_token") for name in SPECIAL_NAMES] == [*SPECIAL_TOKENS]
    assert [getattr(theirs, f"{name}_token_id") for name in SPECIAL_NAMES] == [0, 1, 2, 3, 4]
    assert theirs("학교", "학교")["token_type_ids"] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("part", ["discriminator", "generator"])
def test_the_shipped_tokenizer_and_this_version_have_the_same_pieces(part):
    """Of texts that have the forms of today: its own normaliser knows more of them."""
    folder = Path("model/shipped/ko-modern") / part
    shipped, written = load_tokenizer(folder), build_tokenizer(read_pieces(folder), lowercase=False)
    texts = [("１０월 Ａ형", "10월 A형"), ("한ㆍ미", "한·미"), ("ﾡﾡ! 각", "ㄱㄱ! 각")]
    for raw, clean in texts:
        ids = shipped.encode(raw).ids
        assert ids == shipped.encode(clean).ids == written.encode(raw).ids
        assert shipped.token_to_id("[UNK]") not in ids


def test_special_tokens_can_be_added(tmp_path):
    ours = build_tokenizer([*SPECIAL_TOKENS, "[USER]", "12", "학"], False, ["[USER]"])
    assert ours.encode("12 학[USER]").tokens == ["[CLS]", "12", "학", "[USER]", "[SEP]"]
    save_tokenizer(ours, tmp_path, False, ["[USER]"])
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs("12 학[USER]")["input_ids"] == ours.encode("12 학[USER]").ids
    assert "[USER]" in theirs.all_special_tokens


LETTERS = "abemil가로문의:<>,.!"
MASK_PIECES = [*SPECIAL_TOKENS, *MASK_WORDS, *LETTERS, *("##" + c for c in "abemil가로문의")]
PARTS = [*LETTERS, " ", "\n", "\t", *MASK_WORDS, "<email", "email>"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """As we load it, and as `transformers` does."""
    path = tmp_path_factory.mktemp("vocab")
    save_tokenizer(build_tokenizer(MASK_PIECES, False), path, False)
    return load_tokenizer(path), AutoTokenizer.from_pretrained(path)


@settings(max_examples=60)
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


OTHER_PIECES = ["[PAD]", "학교", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##에서", "a"]


WORDPIECE = json.loads(build_tokenizer(OTHER_PIECES, lowercase=True).to_str())["model"]


@pytest.fixture
def vocabulary(tmp_path):
    save_tokenizer(build_tokenizer(OTHER_PIECES, lowercase=True), tmp_path, lowercase=True)
    return tmp_path


def test_a_folder_and_its_vocab_txt_alone_have_the_same_pieces(vocabulary):
    for _ in range(2):
        assert read_pieces(vocabulary) == read_pieces(vocabulary / "vocab.txt") == OTHER_PIECES
        (vocabulary / "tokenizer.json").unlink(missing_ok=True)


def test_extension_keeps_the_ids_and_puts_new_tokens_behind(vocabulary):
    options = VocabConfig(extend=str(vocabulary), lowercase=True)
    options = options.model_copy(update={"additional_special_tokens": ("[USER]", "a")})
    assert first_pieces_of(options) == (*OTHER_PIECES, "[USER]")
    assert first_pieces_of(VocabConfig()) == SPECIAL_TOKENS


def test_a_vocabulary_of_another_case_is_not_extended(vocabulary):
    assert check_extendable(vocabulary, lowercase=True) == OTHER_PIECES
    with pytest.raises(ValueError, match=r"do_lower_case = True; set vocab\.lowercase = true"):
        check_extendable(vocabulary, lowercase=False)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", "[PAD]\n[UNK]\n", r"no \[CLS\], \[SEP\], \[MASK\]"),
        ("vocab.txt", "\n".join([*SPECIAL_TOKENS, "a", "a"]), "'a' is there twice"),
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
