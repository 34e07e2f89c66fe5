"""What of a text has no piece is counted, and where it is too much it is said."""

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertTokenizer, PreTrainedTokenizerFast

from electrify.system.unknown import Coverage, coverage_of, letter_steps, warn_of_unknown
from vocab.pretokenize import normalizer


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


def test_what_happens_to_letters_is_named(tmp_path):
    """Of vocab.txt alone, `transformers` makes a tokenizer that takes Hangul apart."""
    assert letter_steps(_with(normalizer(False))) == "do_lower_case = false, strip_accents = false"
    assert letter_steps(_with(None)) == "do_lower_case = false, strip_accents = false"
    lower = "do_lower_case = true, strip_accents ="
    assert letter_steps(_with(normalizer(True))) == f"{lower} false"
    kept = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    assert letter_steps(_with(kept)) == f"{lower} false"
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n학교\n")
    alone = BertTokenizer.from_pretrained(tmp_path)
    assert letter_steps(alone) == f"{lower} true, Hangul is taken apart"
    assert coverage_of(alone(["학교"])["input_ids"], alone).is_unfit


def _with(steps):
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    if steps is not None:
        tokenizer.normalizer = steps
    return tokenizer
