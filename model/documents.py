"""Documents inside packed sequences, so that each is attended to by itself.

Pure functions of tensors; static shapes. B sequences, L positions.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from model.ordered import running_maximum, running_sum


def document_blocks(
    input_ids: Tensor, token_type_ids: Tensor, tokens: Tensor, sep_id: int
) -> Tensor:
    """The number of the document that each token belongs to, from 0 on in every row: (B, L) int64.

    Rows are `[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` of one segment, then padding; A and B are
    runs of a stream in which each document ends with a [SEP] of its own. That [SEP] is its
    document's last token. The row's own two, the one before the second segment and the last token,
    end no document and belong with the token before them: a document that ends where a segment
    does has two. [CLS] belongs with the token after it, and padding is a block of its own.

    `tokens` is (B, L) bool, False at padding. A document that goes on from the first segment in
    the second is one block. Where a row begins with the very end of a document, [CLS] has nothing
    but that [SEP] beside it.
    """
    following = F.pad(tokens[:, 1:], (0, 1))
    last = tokens & ~following
    second = token_type_ids > 0
    own = last | (tokens & ~second & F.pad(second[:, 1:], (0, 1)))
    ends = (input_ids == sep_id) & tokens & ~own
    # where the row's own [SEP] comes right behind, the document ends with that one
    own_next = F.pad(own[:, 1:], (0, 1))
    ends_before = F.pad(ends[:, :-1], (1, 0))
    ends = (ends & ~own_next) | (own & ends_before) | last
    return running_sum(F.pad(ends[:, :-1], (1, 0)), torch.int64)


def document_positions(blocks: Tensor) -> Tensor:
    """Each token's place in its block, which begins at 0: (B, L) int64."""
    column = torch.arange(blocks.shape[1], device=blocks.device).expand_as(blocks)
    inside = F.pad(blocks[:, 1:] == blocks[:, :-1], (1, 0))  # the row's first token is not
    return column - running_maximum(column.masked_fill(inside, 0))


def document_mask(blocks: Tensor, tokens: Tensor) -> Tensor:
    """(B, 1, L, L) bool: tokens attend inside their own block.

    Padding attends to padding: a row of the mask with nothing in it would make its softmax NaN.
    """
    same = blocks[:, :, None] == blocks[:, None, :]
    return (same & (tokens[:, :, None] == tokens[:, None, :]))[:, None]
