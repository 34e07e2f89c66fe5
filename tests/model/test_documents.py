"""Documents in packed sequences are told apart, and attended to as if each stood alone."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from electrify.config.pretrain import Packing
from model.batch import Batch, Noise, document_blocks
from model.masking import num_slots
from tests.model.conftest import random_model
from vocab.shards.files import Shard, TokenStream
from vocab.shards.pack import PackedSequences

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


def tensors_of(rows: list[Row]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, token types, and which are tokens."""
    ids = torch.tensor([row.ids for row in rows])
    return ids, torch.tensor([row.types for row in rows]), ids != PAD


def numbered(documents: list[int]) -> list[int]:
    """Numbers from 0 on in the order in which they come."""
    seen = list(dict.fromkeys(documents))
    return [seen.index(document) for document in documents]


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


@torch.no_grad()
@pytest.mark.parametrize("objective", ["electra", "electric"])
def test_packed_documents_are_computed_as_separate_sequences(objective: str):
    model = random_model(attention="document", objective=objective)
    rows = random_rows(12, 24, seed=0)
    ids, types, tokens = tensors_of(rows)
    noise = Noise.draw(1, len(ids), 24, num_slots(model.config, 24))
    languages = torch.zeros(len(ids), dtype=torch.int64)
    masked = model.mask(Batch(ids, types, noise, languages, bool(tokens.all())))
    placed = masked.attention_mask, masked.position_ids
    detected = model.discriminate(ids, types, *placed)
    states = model.generator_states(ids, types, *placed)
    for number, row in enumerate(rows):
        for document in set(row.documents) - {-1}:
            at = [place for place, of in enumerate(row.documents) if of == document]
            alone = ids[number, at][None], types[number, at][None]
            expected = model.discriminate(*alone)[0]
            torch.testing.assert_close(detected[number, at], expected, rtol=1e-4, atol=1e-4)
            expected = model.generator_states(*alone)[0]
            torch.testing.assert_close(states[number, at], expected, rtol=1e-4, atol=1e-4)


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
