"""Documents in packed sequences are told apart, and attended to as if each stood alone."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from model.batch import document_blocks, document_mask, document_positions
from vocab.shards.pack import PackedSequences, Packing
from vocab.shards.stream import Shard, TokenStream

PAD, CLS, SEP = 0, 2, 3


@dataclass(frozen=True)
class Row:
    """A row of a packed batch, and the document that each of its tokens is of."""

    ids: list[int]
    types: list[int]
    documents: list[int]


def pack(documents: list[int], split: int | None, length: int) -> Row:
    """A piece of the stream as a row: where a document changes, the first one's [SEP] stands last.

    `documents` says of each token which one it is of. The number of a token on either side of the
    row's own [SEP] is that of the token before.
    """
    ends = [a != b for a, b in pairwise(documents)] + [False]
    ids = [SEP if end else 10 + place for place, end in enumerate(ends)]
    parts = [(ids, documents)]
    if split is not None:
        parts = [(ids[:split], documents[:split]), (ids[split:], documents[split:])]
    row, types, of = [CLS], [0], [documents[0]]
    for number, (part, numbers) in enumerate(parts):
        row += [*part, SEP]
        of += [*numbers, numbers[-1]]
        types += [number] * (len(part) + 1)
    padding = length - len(row)
    return Row(row + [PAD] * padding, types + [0] * padding, of + [-1] * padding)


def stream(lengths: list[int]) -> list[int]:
    """The document of each token."""
    return [number for number, length in enumerate(lengths) for _ in range(length)]


ROWS = {
    "one document": pack(stream([9]), 4, 16),
    "several": pack(stream([2, 4, 7]), 8, 16),
    "single segment": pack(stream([5, 3, 6]), None, 16),
    "a document ends with the first segment": pack(stream([6, 7]), 6, 16),
    "a document ends behind the own [SEP]": pack(stream([7, 6]), 6, 16),
    "only the end of a document first": pack(stream([1, 12]), 6, 16),
    "documents of one token": pack(stream([3, 1, 1, 1, 7]), 5, 16),
    "padded": pack(stream([3, 4]), 4, 16),
    "padded single segment": pack(stream([3, 4]), None, 16),
}
# the [SEP] of the last document stands right before the row's own
_full = pack(stream([5, 8]), 6, 16)
ROWS["a document ends with the row"] = Row(
    [*_full.ids[:14], SEP, *_full.ids[15:]], _full.types, _full.documents
)
_single = pack(stream([5, 9]), None, 16)
ROWS["a document ends with the single segment"] = Row(
    [*_single.ids[:14], SEP, *_single.ids[15:]], _single.types, _single.documents
)


def tensors_of(rows: list[Row]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, token types, and which are tokens."""
    ids = torch.tensor([row.ids for row in rows])
    return ids, torch.tensor([row.types for row in rows]), ids != PAD


def numbered(documents: list[int]) -> list[int]:
    """Numbers from 0 on in the order in which they come."""
    seen = list(dict.fromkeys(documents))
    return [seen.index(document) for document in documents]


@pytest.mark.parametrize("name", ROWS)
def test_blocks_are_the_documents(name: str):
    row = ROWS[name]
    assert len(row.ids) == 16
    blocks = document_blocks(*tensors_of([row]), SEP)
    assert blocks[0].tolist() == numbered(row.documents)


def random_rows(number: int, length: int, seed: int) -> list[Row]:
    """Full and padded rows of one and two segments over documents of any lengths."""
    rng = torch.Generator().manual_seed(seed)

    def below(bound: int) -> int:
        return int(torch.randint(bound, (), generator=rng))

    rows = []
    for _ in range(number):
        single, short = below(3) == 0, below(3) == 0
        content = length - 2 - (not single) - short * below(length // 2)
        lengths: list[int] = []
        while sum(lengths) < content:
            lengths.append(1 + below(9))
        documents = stream(lengths)[:content]
        rows.append(pack(documents, None if single else 1 + below(content - 1), length))
    return rows


def test_blocks_of_random_rows_are_their_documents():
    rows = random_rows(500, 32, seed=0)
    blocks = document_blocks(*tensors_of(rows), SEP)
    assert blocks.tolist() == [numbered(row.documents) for row in rows]


@pytest.mark.parametrize("packing", ["full", "electra", "sentence"])
def test_blocks_are_the_documents_of_what_the_shards_pack(packing: Packing):
    rng = np.random.default_rng(0)
    documents = rng.integers(1, 30, 300)  # tokens of text
    ends = np.cumsum(documents + 1)
    tokens = np.repeat(np.arange(10, 310, dtype=np.uint16), documents + 1)  # all of one document
    tokens[ends - 1] = SEP
    starts = np.append(0, ends)
    stream = TokenStream([Shard(tokens, starts, starts)], np.dtype(np.uint16))
    special = {"[PAD]": PAD, "[UNK]": 1, "[CLS]": CLS, "[SEP]": SEP, "[MASK]": 4}
    packed = PackedSequences(stream, packing, 24, "key", special)
    ids, types = map(torch.from_numpy, packed.batch(np.arange(packed.num_sequences)))
    blocks = document_blocks(ids, types, ids != PAD, SEP)
    num_documents = []
    for row, found in zip(ids.tolist(), blocks.tolist(), strict=True):
        text = [(of, block) for of, block in zip(row, found, strict=True) if of >= 10]
        own, by_block = zip(*text, strict=True)
        assert numbered(list(own)) == numbered(list(by_block))
        num_documents.append(len(set(own)))
    assert (max(num_documents) > 1) == (packing == "full")


def test_positions_begin_at_0_in_each_block():
    rows = random_rows(200, 32, seed=1)
    positions = document_positions(document_blocks(*tensors_of(rows), SEP))
    for row, found in zip(rows, positions.tolist(), strict=True):
        first = [row.documents.index(document) for document in row.documents]
        assert found == [place - start for place, start in enumerate(first)]


def test_the_mask_lets_each_token_see_its_own_document_and_none_see_nothing():
    rows = random_rows(100, 24, seed=2)
    ids, types, tokens = tensors_of(rows)
    mask = document_mask(document_blocks(ids, types, tokens, SEP), tokens)
    assert mask.shape == (100, 1, 24, 24)
    for row, found in zip(rows, mask[:, 0].tolist(), strict=True):
        assert found == [[a == b for b in row.documents] for a in row.documents]
    assert mask.any(dim=-1).all()


def attention(hidden: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
    """One head over (B, L, D) states and sinusoid positions, written out."""
    width = hidden.shape[-1]
    angles = positions[..., None] / 100 ** (torch.arange(width) / width)
    states = hidden + angles.sin()
    scores = states @ states.transpose(-1, -2) / math.sqrt(width)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, 0], float("-inf"))
    attended: Tensor = scores.softmax(dim=-1) @ states
    return attended


def test_packed_documents_are_attended_to_as_if_each_stood_alone():
    rows = random_rows(20, 32, seed=3)
    ids, types, tokens = tensors_of(rows)
    blocks = document_blocks(ids, types, tokens, SEP)
    table = torch.randn(60, 8, generator=torch.Generator().manual_seed(4))
    packed = table[ids]
    for _ in range(2):  # two layers
        packed = attention(packed, document_positions(blocks), document_mask(blocks, tokens))
    for row, found in zip(rows, packed, strict=True):
        for document in set(row.documents):
            places = [place for place, of in enumerate(row.documents) if of == document]
            alone = table[torch.tensor(row.ids)[places]][None]
            for _ in range(2):
                alone = attention(alone, torch.arange(len(places))[None], None)
            torch.testing.assert_close(found[places], alone[0], rtol=1e-5, atol=1e-6)


def test_it_is_one_graph_whatever_the_values():
    def find(ids: Tensor, types: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        blocks = document_blocks(ids, types, tokens, SEP)
        return blocks, document_positions(blocks), document_mask(blocks, tokens)

    graph = torch.compile(find, backend="eager", fullgraph=True)
    for seed in (5, 6):
        arguments = tensors_of(random_rows(8, 24, seed))
        for found, expected in zip(graph(*arguments), find(*arguments), strict=True):
            assert torch.equal(found, expected)
