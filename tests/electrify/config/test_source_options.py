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
        ("text", {"text_field": "body"}),
        ("parquet", {"encoding": "cp949"}),
        ("wikipedia", {"text_field": "body"}),
        ("huggingface", {"document": "line"}),
        ("wet", {"encoding": "utf-16"}),
        ("wikipedia", {"id_field": "title"}),
    ],
)
def test_an_option_of_another_kind_is_refused_with_both_names(kind, options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=rf"{name} = {value!r} is not for kind = {kind!r}"):
        _source(kind, **options)


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
    assert Source(**source.model_dump()) == source
    assert pickle.loads(pickle.dumps(source)) == source


def test_encodings_are_codecs_for_text():
    for encoding in ("UTF8", "cp949", "euc-kr", "utf-16"):
        assert _source("text", encoding=encoding).encoding == encoding
    for encoding in ("cp94", "", "rot13", "base64", "a\0b"):
        with pytest.raises(ValueError, match="is no text encoding"):
            _source("text", encoding=encoding)
