"""What is cut out of addresses before others read them."""

import pytest

from electrify.config.clean import Source
from electrify.config.fields import without_secrets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://h.kr/a.jsonl?token=x", "https://h.kr/a.jsonl"),
        ("https://me:pw@h.kr:80/a.gz?x#y", "https://h.kr:80/a.gz"),
        ("s3://key:se/cret@bucket/a", "s3://bucket/a"),
        ("sftp://me:p?w@h/a", "sftp://h/a"),
        ("abfs://box@a.net/b?sig=x", "abfs://box@a.net/b"),
        ("simplecache::https://me@h/a?x", "simplecache::https://h/a"),
        (
            "OSError: 'https://h/a?k=v' and ftp://me@h/b, gone",
            "OSError: 'https://h/a' and ftp://h/b, gone",
        ),
    ],
)
def test_users_and_queries_are_cut_out(text, expected):
    assert without_secrets(text) == expected
    assert without_secrets(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("gs://b/part-?.jsonl", "data/a?.txt", "/home/me@work/a=?", "hf://datasets/a/b@main/c"),
        *("https://h:8080/@me/a.jsonl", "who?=you", "C:\\a?b"),
    ],
)
def test_names_and_wildcards_stay(text):
    assert without_secrets(text) == text


def test_a_config_is_written_without_secrets_and_read_with_them():
    source = Source(kind="jsonl", language="ko", path="https://me:pw@h/a.jsonl?token=x")
    assert source.path == "https://me:pw@h/a.jsonl?token=x"
    assert source.model_dump(mode="json")["path"] == "https://h/a.jsonl"
