"""The tokenizer of golden files: that of cased BERT over the file's own vocabulary."""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

_MAX_WORD_LENGTH = 100  # longer words are [UNK], as `transformers` has it


def word_pieces(vocabulary: Sequence[str], added_tokens: Sequence[str] = ()) -> Tokenizer:
    """A tokenizer without special tokens around a text; line number is token id.

    Control characters are dropped, CJK characters and punctuation are words of their own, nothing
    is lower-cased: `BertTokenizer(do_lower_case=False)` of transformers 3.5.1.
    """
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(
        models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=_MAX_WORD_LENGTH)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if added_tokens:
        tokenizer.add_special_tokens(list(added_tokens))
    return tokenizer
