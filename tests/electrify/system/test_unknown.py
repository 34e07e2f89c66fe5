"""What of a text has no piece is counted, and where it is too much it is said."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from electrify.system.unknown import Coverage, coverage_of, warn_of_unknown


@pytest.mark.parametrize(
    ("num_tokens", "num_unknown", "is_unfit"),
    [
        (0, 0, False),
        (1, 1, True),
        (6, 1, False),  # one may be an emoji
        (2, 2, True),
        (4, 3, True),
        (1000, 51, False),
        (1000, 52, True),
    ],
)
def test_one_unknown_token_is_none_and_more_than_a_twentieth_is_too_much(
    num_tokens, num_unknown, is_unfit, caplog
):
    coverage = Coverage(num_tokens, num_unknown)
    assert coverage.is_unfit == is_unfit
    assert warn_of_unknown(coverage, "reviews") == is_unfit
    assert ("vocab.txt alone" in caplog.text) == is_unfit


def test_special_tokens_are_not_counted():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "가", "나"]
    model = models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]")
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    rows = tokenizer(["[CLS] 가 다 [SEP]", "나"])["input_ids"]
    assert coverage_of(rows, tokenizer) == (3, 1)
    assert coverage_of([], tokenizer) == (0, 0)
