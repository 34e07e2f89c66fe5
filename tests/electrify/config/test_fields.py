"""Addresses with a password or a key are refused, without showing it."""

import pytest

from electrify.config.fields import check_address

_SECRETS = [
    "https://h.kr/a.jsonl?token=s3cr3t",
    "https://h.kr/a.jsonl?a=b&X-Amz-Signature=s3cr3t",
    "https://me:s3cr3t@h.kr:80/a.gz?x#y",
    "s3://key:s3/cr3t@bucket/a",
    "simplecache::https://me:s3cr3t@h/a?x",
    "abfs://box@a.net/b?sig=s3cr3t",
]
_ADDRESSES = [
    *("gs://b/part-?.jsonl", "data/a?.txt", "/home/me@work/a=?", "hf://datasets/a/b@main/c"),
    *("https://h:8080/@me/a.jsonl", "https://h/a.csv?dl=1", "who?token=you", "C:\\a?b"),
]


@pytest.mark.parametrize("address", _SECRETS)
def test_a_password_or_key_is_refused_and_not_shown(address):
    with pytest.raises(ValueError, match="has a password or a key in it") as refused:
        check_address(address)
    assert "s3cr3t" not in str(refused.value)
    assert "cr3t@" not in str(refused.value)


@pytest.mark.parametrize("address", _ADDRESSES)
def test_other_addresses_and_wildcards_stay(address):
    assert check_address(address) == address
