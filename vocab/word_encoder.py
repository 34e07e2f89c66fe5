"""Text to ids by way of distinct words: each string between spaces is tokenised once.

WordPiece looks at one word at a time, and no step before it looks across a space, so the ids of a
text are those of its space-separated strings joined. With the ids of strings met before in a
dictionary, most of the text costs a look-up: twice the speed of `encode_batch_fast` while the
dictionary fills, four times later.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from vocab.shard_writer import token_dtype
from vocab.tokenizer import SEP, UNK

MAX_STRINGS = 1_000_000  # remembered at once, some 200 MB
_JOINED = 512  # new strings tokenised as one text
_MARKS = "|~^\\;=+*.,"  # one of these, which BERT's pre-tokenizer isolates, goes between them
_CHECKED_TEXTS, _CHECKED_CHARACTERS = 4, 2000


class WordEncoder:
    """A tokenizer with the ids of the strings it has met."""

    def __init__(self, tokenizer: Any) -> None:
        # a literal "[MASK]" in a document is text, not the special token
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.dtype = token_dtype(tokenizer.get_vocab_size())
        self.unk: int = tokenizer.token_to_id(UNK)
        self.sep = np.array([tokenizer.token_to_id(SEP)], self.dtype).tobytes()
        self._known: dict[str, bytes] = {"": b""}
        self._mark, self._mark_id = self._find_mark()

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """The ids of each text, as the bytes of an array of `dtype`."""
        # at these two only: a tab or an exotic space is left to the normaliser, and a control
        # character that str.split() takes for a space is none to it (it joins its neighbours)
        split = [text.replace("\n", " ").split(" ") for text in texts]
        known = self._known
        if len(known) > MAX_STRINGS:  # those met first are the frequent ones
            known = self._known = dict(islice(known.items(), MAX_STRINGS // 2))
        self._learn([word for word in set(chain.from_iterable(split)) if word not in known])
        return [b"".join(map(known.__getitem__, words)) for words in split]

    def check(self, texts: Sequence[str]) -> None:
        """`ValueError` if the tokenizer looks across spaces: told by the first few texts."""
        sample = [text[:_CHECKED_CHARACTERS] for text in texts[:_CHECKED_TEXTS]]
        whole = self._tokenize(sample)
        for text, joined, ids in zip(sample, self.encode(sample), whole, strict=True):
            if joined != np.array(ids, self.dtype).tobytes():
                raise ValueError(
                    "this tokenizer.json does not treat each word by itself, as WordPiece with "
                    f"BERT's pre-tokenizer does (seen in the text {text[:60]!r}...); make it "
                    "again: electrify train-vocab CONFIG --overwrite"
                )

    def _learn(self, words: Sequence[str]) -> None:
        """Tokenise new strings, many as one text: alone, each would cost three times as much."""
        mark, apart = self._mark, list[str]()
        joinable = [word for word in words if mark and mark not in word]
        groups = [joinable[i : i + _JOINED] for i in range(0, len(joinable), _JOINED)]
        texts = [f" {mark} ".join(group) for group in groups]
        for group, listed in zip(groups, self._tokenize(texts), strict=True):
            ids = np.array(listed, self.dtype)
            ends = np.flatnonzero(ids == self._mark_id).tolist()
            if len(ends) != len(group) - 1:
                apart += group
                continue
            borders = zip([0, *(end + 1 for end in ends)], [*ends, len(ids)], strict=True)
            self._known.update(
                (word, ids[start:stop].tobytes())
                for word, (start, stop) in zip(group, borders, strict=True)
            )
        apart += [word for word in words if not mark or mark in word]
        for word, listed in zip(apart, self._tokenize(apart), strict=True):
            self._known[word] = np.array(listed, self.dtype).tobytes()

    def _find_mark(self) -> tuple[str, int]:
        """A punctuation mark that is a piece; no mark if there is none."""
        for mark, ids in zip(
            _MARKS, self._tokenize([f"a {mark} a" for mark in _MARKS]), strict=True
        ):
            alone = self._tokenizer.token_to_id(mark)
            if alone is not None and alone != self.unk and list(ids).count(alone) == 1:
                return mark, alone
        return "", -1

    def _tokenize(self, texts: Sequence[str]) -> Iterable[list[int]]:
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return (encoding.ids for encoding in encoded)
