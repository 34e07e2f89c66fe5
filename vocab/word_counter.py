"""Text to counts of words, as the finished tokenizer cuts them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from vocab.normalizer import normalizer
from vocab.plain_words import PlainWords
from vocab.pretokenize import MAX_WORD_CHARACTERS, pre_tokenizer


class WordCounter:
    """Counts words of texts; only distinct strings between spaces are cut into words.

    Neither the normaliser nor the pre-tokenizer looks across a space, so cutting there first gives
    the same words: 20 MB of Korean a second, of it half for the cutting of strings into words.
    """

    def __init__(self, lowercase: bool, split_digits: bool) -> None:
        self._normalize = normalizer(lowercase).normalize_str
        self._cut = pre_tokenizer(split_digits).pre_tokenize_str
        self._plain = PlainWords(lowercase, split_digits)
        self._strings: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many distinct strings are remembered."""
        return len(self._strings)

    def add(self, text: str) -> None:
        """Count the words of a text."""
        # at these two only: str.split() would part words at control characters, too, which the
        # normaliser takes out
        self._strings.update(text.replace("\n", " ").split(" "))

    def words(self) -> dict[str, int]:
        """All words so far, which are forgotten with this."""
        words: defaultdict[str, int] = defaultdict(int)  # a missing key costs a Counter 0.5 us
        self._strings.pop("", None)
        is_word, limit = self._plain.is_word, MAX_WORD_CHARACTERS
        while self._strings:
            string, count = self._strings.popitem()
            for word in (string,) if is_word(string) else self._words_of(string):
                if len(word) <= limit:
                    words[word] += count
        return dict(words)

    def _words_of(self, string: str) -> Iterable[str]:
        if self._plain.is_plain(string):
            return self._plain.words(string)
        return self._slow_words(string)

    def _slow_words(self, string: str) -> Iterator[str]:
        for part in self._normalize(string).split(" "):
            yield from (word for word, _ in self._cut(part))


def count_words(texts: Iterable[str], lowercase: bool, split_digits: bool = False) -> Counter[str]:
    """Words of the texts with their counts, without those too long for the tokenizer."""
    counter = WordCounter(lowercase, split_digits)
    for text in texts:
        counter.add(text)
    return Counter(counter.words())
