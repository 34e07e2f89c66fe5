import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vocab.shard_files import SPECIAL, read_all, write_shards
from vocab.shards.files import Shard, TokenShards, TokenStream, token_dtype


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_dtype_holds_the_largest_id(tmp_path, vocab_size, dtype):
    assert token_dtype(vocab_size) == dtype
    documents = {("train", "ko"): [[vocab_size - 1, 3]]}
    write_shards(tmp_path, documents, vocab_size, "0" * 64, SPECIAL)
    stream = TokenShards(tmp_path).stream("train", "ko")
    assert stream.take(np.array([0]), np.array([2])).dtype == dtype
    assert read_all(stream) == [vocab_size - 1, 3]


def edit_index(folder, **changes):
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def lead_out(folder, language, name):
    """Let the index name a folder of a language, and a file, outside of its own."""
    splits = json.loads((folder / "index.json").read_text())["splits"]
    splits["train"]["ko"]["shards"][0]["tokens"] = name
    edit_index(folder, splits=splits | {"train": {language: splits["train"]["ko"]}})


def break_header(path):
    array = path.read_bytes()
    path.write_bytes(array[:10] + b"{(((" + array[14:])


TOKENS, OFFSETS = "train/ko/tokens-00000.npy", "train/ko/offsets-00000.npy"
DAMAGE = {
    "truncated": (lambda f: (f / TOKENS).write_bytes((f / TOKENS).read_bytes()[:-2]), TOKENS),
    "emptied": (lambda f: (f / TOKENS).write_bytes(b""), TOKENS),
    "not an array": (lambda f: (f / TOKENS).write_bytes(b"x" * 300), TOKENS),
    "header": (lambda f: break_header(f / TOKENS), TOKENS),
    "missing": (lambda f: (f / OFFSETS).unlink(), OFFSETS),
    "index gone": (lambda f: (f / "index.json").unlink(), "index.json"),
    "index cut": (lambda f: (f / "index.json").write_text('{"dty'), "index.json"),
    "index version": (lambda f: edit_index(f, format_version=1), "format_version 1"),
    "index without": (lambda f: edit_index(f, special_token_ids={}), r"\[PAD\]"),
    "shard elsewhere": (lambda f: lead_out(f, "ko", "/etc/hostname"), r"index\.json is damaged"),
    "language elsewhere": (lambda f: lead_out(f, "../a", "tokens-00000.npy"), "is damaged"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_reported_with_the_file(tmp_path, kind):
    write_shards(tmp_path, {("train", "ko"): [[7, 8, 3], [9, 9, 3]]}, 1000, "0" * 64, SPECIAL)
    TokenShards(tmp_path)
    damage, named = DAMAGE[kind]
    damage(tmp_path)
    with pytest.raises(ValueError, match=named):
        TokenShards(tmp_path)


UINT16 = np.dtype(np.uint16)
sizes = st.lists(st.integers(0, 12), max_size=6)


def stream_of(sizes: list[int]) -> TokenStream:
    """Shards of so many tokens, which are numbered."""
    parts = np.split(np.arange(sum(sizes), dtype=UINT16), np.cumsum(sizes).astype(np.int64))
    ends = np.zeros(1, np.int64)
    return TokenStream([Shard(part, ends) for part in parts], UINT16)


@settings(max_examples=60)
@given(sizes, st.data())
def test_taken_ranges_are_slices_of_the_whole(sizes, data):
    """Also empty ones, ones that go over several parts, that meet, that come twice."""
    joined, total = stream_of(sizes), sum(sizes)
    place = st.integers(0, total)
    pairs = data.draw(st.lists(st.tuples(place, place).map(sorted), max_size=8))
    starts = np.array([start for start, _ in pairs], np.int64)
    stops = np.array([stop for _, stop in pairs], np.int64)
    taken = joined.take(starts, stops - starts)
    assert taken.dtype == UINT16
    assert taken.tolist() == [n for start, stop in pairs for n in range(start, stop)]
