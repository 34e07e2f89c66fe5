"""From pieces back to words by comparing texts, as BERT's code and that of its followers does.

The harness takes answers by character offsets instead (`benchmarks.tasks.kinds.spans`); here is the
official way, for golden values of code that had no offsets: google-research/electra
finetune/qa/qa_metrics.py `get_final_text` and the same of transformers 3.5.1.
"""

import unicodedata
from collections.abc import Iterator, Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_WORD_BOUNDARIES = " \t\r\n\u202f"


def blank_separated_words(context: str) -> list[tuple[str, int]]:
    """Each word of a context and the position of its first character.

    Words end at blank, tab, line ends and the narrow no-break space only.
    """
    words: list[tuple[str, int]] = []
    is_inside = False
    for position, character in enumerate(context):
        if character in _WORD_BOUNDARIES:
            is_inside = False
        elif is_inside:
            word, start = words[-1]
            words[-1] = (word + character, start)
        else:
            words.append((character, position))
            is_inside = True
    return words


def joined_pieces(pieces: Sequence[str], keep_first_mark: bool) -> str:
    """The text of word pieces; `keep_first_mark` leaves the "##" of a piece inside a word.

    ELECTRA takes it away, the `convert_tokens_to_string` of transformers 3.5.1 only behind a blank:
    a text that begins inside a word is then not found again, and whole words are given.
    """
    text = " ".join(pieces).replace(" ##", "")
    if not keep_first_mark:
        text = text.replace("##", "")
    return " ".join(text.split())


def project(text: str, words: Sequence[str], lower_case: bool) -> str:
    """What stands in `words`, joined by blanks, for `text`, which pieces of them were joined to.

    The words are split as BERT splits them, `text` is looked for there, and its first and last
    character are counted off in the words, blanks left out. Where it is not found, or characters
    went lost in splitting, all the words are given.
    """
    source = " ".join(words)
    split = " ".join(_basic_tokens(source, lower_case))
    found = split.find(text)
    places = [position for position, character in enumerate(source) if character != " "]
    if not text or found < 0 or len(places) != len(split.replace(" ", "")):
        return source
    first = len(split[:found].replace(" ", ""))
    last = first + len(text.replace(" ", "")) - 1
    return source[places[first] : places[last] + 1]


def _basic_tokens(text: str, lower_case: bool) -> Iterator[str]:
    """BERT's words: no control characters, CJK characters and punctuation alone, blanks between.

    Lower case comes with accents taken off. Not `tokenizers.BertNormalizer`: the length of the text
    decides above, and in that older code nothing is composed (NFC) before.
    """
    characters = (_cleaned(character) for character in text)
    for word in "".join(characters).split():
        if lower_case:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        yield from "".join(f" {c} " if _is_punctuation(c) else c for c in word).split()


def _cleaned(character: str) -> str:
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if character in "\0\ufffd" or unicodedata.category(character).startswith("C"):
        return ""
    if any(first <= ord(character) <= last for first, last in _CJK):
        return f" {character} "
    return character


def _is_punctuation(character: str) -> bool:
    is_ascii_sign = "!" <= character <= "~" and not character.isalnum()
    return is_ascii_sign or unicodedata.category(character).startswith("P")


# The tokenizer of golden files: that of cased BERT over the file's own vocabulary.

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
