"""Tokenizer files, shards and their index that somebody wrote by hand: the file is named."""

import json

import pytest

from tests.vocab.conftest import batches_of
from tests.vocab.shard_files import write_shards
from vocab.report import read_spans, report_page, vocab_report
from vocab.shards.files import TokenShards
from vocab.tokenizer import (
    build_tokenizer,
    is_lowercase,
    load_reference,
    load_tokenizer,
    read_pieces,
    save_tokenizer,
)
from vocab.wordpiece.learn import SPECIAL_TOKENS

SPECIAL = {token: number for number, token in enumerate(SPECIAL_TOKENS)}


@pytest.fixture
def folder(tmp_path):
    save_tokenizer(build_tokenizer([*SPECIAL_TOKENS, "a"], lowercase=False), tmp_path, False)
    return tmp_path


def _edit(path, change):
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def _add_broken_charsmap(tokenizer):
    broken = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    tokenizer["normalizer"]["normalizers"].append(broken)


def test_a_tokenizer_at_which_the_library_panics_is_damaged(folder):
    _edit(folder / "tokenizer.json", _add_broken_charsmap)
    for load in (load_tokenizer, load_reference):
        with pytest.raises(ValueError, match=r"tokenizer\.json is damaged"):
            load(folder)


@pytest.mark.parametrize("model", [[], 3, {"vocab": {"a": "0"}}, {"vocab": [1]}])
def test_a_tokenizer_without_pieces_is_refused(folder, model):
    _edit(folder / "tokenizer.json", lambda tokenizer: tokenizer.update(model=model))
    with pytest.raises(ValueError, match=str(folder)):
        read_pieces(folder)


def test_a_vocabulary_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(ValueError, match=r"vocab\.txt is not UTF-8"):
        read_pieces(path)


def test_a_config_beside_that_is_no_object_says_nothing(folder):
    (folder / "tokenizer_config.json").write_text("3")
    assert is_lowercase(folder) is None
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer_config\.json is not valid JSON"):
        is_lowercase(folder)


@pytest.mark.parametrize(
    "paragraph", [{"context": ["a"], "qas": []}, {"context": "a", "qas": [[]]}]
)
def test_spans_of_another_form_name_the_file(tmp_path, paragraph):
    path = tmp_path / "dev-v1.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    with pytest.raises(ValueError, match=r"dev-v1\.json: not in the official format"):
        read_spans(path)


def _shard(index):
    return index["splits"]["train"]["ko"]["shards"][0]


INDEXES = {
    "a name out of the folder": lambda i: _shard(i).update(tokens="../../../secret.npy"),
    "an absolute name": lambda i: _shard(i).update(offsets="/etc/hostname"),
    "a language out of the folder": lambda i: i["splits"]["train"].update(
        {"../..": {"shards": []}}
    ),
    "no count": lambda i: _shard(i).pop("num_tokens"),
    "a count below zero": lambda i: _shard(i).update(num_documents=-1),
    "a count as text": lambda i: _shard(i).update(num_sentences="2"),
    "no checksum": lambda i: _shard(i)["sha256"].pop("tokens"),
    "no split": lambda i: i["splits"].pop("valid"),
    "a split of another form": lambda i: i["splits"].update(train=[]),
    "no special token": lambda i: i["special_token_ids"].pop("[MASK]"),
    "a vocabulary of no size": lambda i: i.update(vocab_size=[None]),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_of_another_form_is_damaged(tmp_path, kind):
    documents = {("train", "ko"): [[7, 8, 3], [9, 3]], ("valid", "ko"): [[7, 3]]}
    write_shards(tmp_path, documents, 28, "0" * 64, SPECIAL)
    TokenShards(tmp_path).verify()
    _edit(tmp_path / "index.json", INDEXES[kind])
    with pytest.raises(ValueError, match=r"index\.json is damaged"):
        TokenShards(tmp_path)


# a shape that is no tuple of whole numbers
_NO_LENGTH = b"{'descr': '<i8', 'fortran_order': False, 'shape': (2.5,), }\n"


@pytest.mark.parametrize(
    "header", [b"{'descr': '<i0", b"{" * 200, b"{'descr': '|O', ", b"9" * 5000, _NO_LENGTH]
)
def test_an_array_with_a_broken_header_is_damaged(tmp_path, header):
    write_shards(tmp_path, {("train", "ko"): [[7, 3]]}, 28, "0" * 64, SPECIAL)
    path = tmp_path / "train" / "ko" / "offsets-00000.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(ValueError, match=r"offsets-00000\.npy is damaged"):
        TokenShards(tmp_path)


def test_markup_in_words_and_sentences_stays_text():
    hostile = "<script>alert('가')</script> <img src=x onerror=alert(1)>"
    pieces = [
        *SPECIAL_TOKENS,
        "<script>",
        "<img",
        *sorted({*hostile, *(f"##{c}" for c in hostile)}),
    ]
    tokenizer = build_tokenizer(pieces, lowercase=False)
    batches = batches_of({"<script>": 3, "alert": 2}, "ko")
    report = vocab_report(tokenizer, batches, [("ko", hostile), ("<script>", hostile)])
    report["sources"] = [{"language": "ko", "source": hostile, "words": 3}]
    page = report_page(report, hostile).text()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
