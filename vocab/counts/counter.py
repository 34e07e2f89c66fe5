"""Text to counts of words, as the finished tokenizer cuts them."""

import pyarrow as pa
import pyarrow.compute as pc

from vocab.pretokenize import MAX_WORD_CHARACTERS, PlainWords, normalizer, pre_tokenizer

COUNTED = pa.schema([("word", pa.string()), ("count", pa.int64())])


class WordCounter:
    """Counts words of texts; only distinct strings between spaces are cut into words.

    Neither the normaliser nor the pre-tokenizer looks across a space, so cutting there first gives
    the same words. All is done in columns of Arrow, but for the few strings that are not plain: 30
    MB of Korean a second.
    """

    def __init__(self, lowercase: bool, split_digits: bool) -> None:
        self._normalize = normalizer(lowercase).normalize_str
        self._cut = pre_tokenizer(split_digits).pre_tokenize_str
        self._plain = PlainWords(lowercase, split_digits)
        self._strings: list[pa.Table] = []  # distinct in each
        self.num_strings = 0  # remembered

    def add(self, texts: pa.Array) -> None:
        # at these two only: other white space is left to the normaliser, and some that Unicode
        # counts as such it takes out
        spaced = pc.replace_substring(texts.cast(pa.string()), "\n", " ")
        strings = _distinct(pc.split_pattern(spaced, " ").flatten())
        self._strings.append(strings)
        self.num_strings += len(strings)

    def words(self) -> pa.Table:
        """The distinct words so far with their counts, all of which are forgotten with this."""
        strings = sum_counts(self._strings)
        self._strings, self.num_strings = [], 0
        is_word = pc.match_substring_regex(strings["word"], self._plain.word_re2)
        words, others = strings.filter(is_word), strings.filter(pc.invert(is_word))
        is_plain = pc.match_substring_regex(others["word"], self._plain.plain_re2)
        plain, odd = others.filter(is_plain), others.filter(pc.invert(is_plain))
        found = sum_counts([words, self._plain_words(plain), self._odd_words(odd)])
        lengths = pc.utf8_length(found["word"])
        is_long = pc.greater(lengths, MAX_WORD_CHARACTERS)
        whole = found.filter(pc.and_(pc.greater(lengths, 0), pc.invert(is_long)))
        return sum_counts([whole, self._odd_words(found.filter(is_long))])

    def _plain_words(self, strings: pa.Table) -> pa.Table:
        """Words and marks that stand without a space between them."""
        apart = pc.replace_substring_regex(strings["word"], self._plain.mark_re2, r" \0 ")
        lists = pc.split_pattern(apart, " ")  # the empty string among them is left out at the end
        counts = strings["count"].take(pc.list_parent_indices(lists))
        return pa.table([pc.list_flatten(lists), counts], schema=COUNTED)

    def _odd_words(self, strings: pa.Table) -> pa.Table:
        """Whatever the tokenizer's own steps make of strings."""
        words, counts = list[str](), list[int]()
        for string, count in zip(
            *(strings[name].to_pylist() for name in COUNTED.names), strict=True
        ):
            found = [word for word, _ in self._cut(self._normalize(string))]
            words += found
            counts += [count] * len(found)
        return pa.table([words, counts], schema=COUNTED)


def sum_counts(tables: list[pa.Table]) -> pa.Table:
    """Each word once, with the sum of its counts."""
    summed = pa.concat_tables([COUNTED.empty_table(), *tables]).group_by("word", use_threads=False)
    return summed.aggregate([("count", "sum")]).rename_columns(COUNTED.names)


def _distinct(strings: pa.Array) -> pa.Table:
    found = pc.value_counts(strings)
    return pa.table([found.field(0), found.field(1)], schema=COUNTED)
