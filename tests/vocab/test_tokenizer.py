import itertools
import unicodedata
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.vocab.conftest import batches_of, count_words, marked, vocab_options
from vocab.learn import train_wordpiece
from vocab.segment import SPECIAL_TOKENS
from vocab.tokenizer import build_tokenizer, load_tokenizer, read_pieces, save_tokenizer

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
    vocabulary = train_wordpiece(batches_of(marked(words)), options)
    return build_tokenizer(vocabulary.pieces, lowercase)


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


def test_transformers_knows_the_special_tokens_and_segments(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    special = (tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.cls_token_id)
    assert (*special, tokenizer.sep_token_id, tokenizer.mask_token_id) == (0, 1, 2, 3, 4)
    pair = tokenizer("학교", "학교")
    assert pair["token_type_ids"] == [0, 0, 0, 1, 1]
    assert pair["input_ids"][0] == 2
    assert pair["input_ids"][-1] == 3
    assert tokenizer.convert_ids_to_tokens(tokenizer("a [MASK]")["input_ids"])[2] == "[MASK]"


def test_an_electra_model_folder_keeps_the_normaliser(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "electra"}')
    text = unicodedata.normalize("NFD", "École 한국어를")
    expected = load_tokenizer(folder).encode(text).ids
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer(text)["input_ids"] == expected
    assert 1 not in expected
    tokenizer.save_pretrained(tmp_path / "again")
    assert AutoTokenizer.from_pretrained(tmp_path / "again")(text)["input_ids"] == expected


@pytest.mark.parametrize("part", ["discriminator", "generator"])
def test_the_shipped_tokenizer_is_what_this_version_writes(part):
    folder = Path("model/shipped/ko-modern") / part
    written = build_tokenizer(read_pieces(folder), lowercase=False).to_str(pretty=True)
    assert (folder / "tokenizer.json").read_text(encoding="utf-8") == written + "\n"
    tokenizer = load_tokenizer(folder)
    for raw, clean in (("１０월 Ａ형", "10월 A형"), ("한・미", "한·미"), ("ᄏᄏ！", "ㅋㅋ!")):
        ids = tokenizer.encode(raw).ids
        assert ids == tokenizer.encode(clean).ids
        assert tokenizer.token_to_id("[UNK]") not in ids


def test_digits_can_be_split_and_tokens_added(documents, tmp_path):
    pieces = [*SPECIAL_TOKENS, "[USER]", "1", "2", "12", "##1", "##2", "학"]
    plain = build_tokenizer(pieces, False)
    assert plain.encode("12 1학").tokens == ["[CLS]", "12", "1", "학", "[SEP]"]
    split = build_tokenizer(pieces, False, split_digits=True, additional_special_tokens=["[USER]"])
    assert split.encode("12 1학[USER]").tokens == ["[CLS]", "1", "2", "1", "학", "[USER]", "[SEP]"]
    save_tokenizer(split, tmp_path, False, ["[USER]"])
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs("12 1학[USER]")["input_ids"] == split.encode("12 1학[USER]").ids
    assert "[USER]" in theirs.all_special_tokens
    assert theirs.decode(split.encode("12 [USER]").ids, skip_special_tokens=True) == "1 2"
