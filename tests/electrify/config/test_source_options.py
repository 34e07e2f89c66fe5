"""Options of a source: only those of its kind, and only encodings that are there."""

import pickle

import pytest

from electrify.config.clean import Source


def _source(kind, **options):
    return Source(kind=kind, language="ko", path="x", **options)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("jsonl", {"document": "line"}),
        ("jsonl", {"split": "test"}),
        ("text", {"text_field": "body"}),
        ("text", {"thread_field": "post"}),
        ("parquet", {"encoding": "cp949"}),
        ("parquet", {"split": "test"}),
        ("wikipedia", {"text_field": "body"}),
        ("huggingface", {"document": "line"}),
        ("huggingface", {"encoding": "utf-16"}),
        ("wet", {"encoding": "utf-16"}),
        ("wet", {"thread_field": "url"}),
        ("wikipedia", {"id_field": "title"}),
    ],
)
def test_an_option_of_another_kind_is_refused_with_both_names(kind, options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=rf"{name} = {value!r} is not for kind = {kind!r}"):
        _source(kind, **options)


@pytest.mark.parametrize("kind", ["jsonl", "text", "parquet", "wikipedia", "huggingface", "wet"])
def test_a_source_printed_in_full_can_be_read_again(kind):
    assert Source(**_source(kind).model_dump()) == _source(kind)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("jsonl", {"text_field": "a", "thread_field": "b", "encoding": "cp949"}),
        ("parquet", {"text_field": "a", "id_field": "b"}),
        ("text", {"document": "file", "encoding": "shift_jis"}),
        ("parquet", {"text_field": "a", "thread_field": "b"}),
        ("huggingface", {"name": "a", "split": "b", "text_field": "c", "thread_field": "d"}),
        ("wikipedia", {"encoding": "utf-8", "profile": "encyclopaedia", "max_documents": 5}),
        ("wet", {"profile": "web", "licence": "x", "name": "y"}),
    ],
)
def test_a_kind_takes_its_own_options_and_keeps_them_on_the_way_to_a_worker(kind, options):
    source = _source(kind, **options)
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(
    "encoding", ["utf-8", "UTF8", "cp949", "euc-kr", "shift_jis", "utf-16", "koi8-r"]
)
def test_codecs(encoding):
    assert _source("text", encoding=encoding).encoding == encoding


@pytest.mark.parametrize("encoding", ["cp94", "", "rot13", "base64", "koreann", "a\0b"])
def test_what_is_no_codec_for_text(encoding):
    with pytest.raises(ValueError, match="is no text encoding; write a codec of Python"):
        _source("text", encoding=encoding)
