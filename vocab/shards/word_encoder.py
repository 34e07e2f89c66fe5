"""Text to ids by way of distinct words: each string between spaces is tokenised once.

WordPiece looks at one word at a time, and no step before it looks across a space, so the ids of a
text are those of its space-separated strings joined. With the ids of strings met before in a
dictionary, most of the text costs a look-up. Of new strings nearly all are plain: those need the
model only, at half the cost of all steps.
"""

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocab.segment import Segmenter
from vocab.shards.files import token_dtype
from vocab.tokenizer import SEP, UNK, pieces_of, plain_words_of

MAX_STRINGS = 1_000_000  # remembered at once, some 200 MB
_UNKNOWN = b"?"  # in place of the ids of a string; never equal to them, by its length


class WordEncoder:
    """A tokenizer with the ids of the strings it has met; `ValueError` if it is none of ours."""

    def __init__(self, tokenizer: Any) -> None:
        # a literal "[MASK]" in a document is text, not the special token
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.dtype = token_dtype(tokenizer.get_vocab_size())
        self.unk: int = tokenizer.token_to_id(UNK)
        self._unk_bytes = np.array([self.unk], self.dtype).tobytes()
        self.sep = np.array([tokenizer.token_to_id(SEP)], self.dtype).tobytes()
        self._known: dict[str, bytes] = {"": b""}
        self._lock = threading.Lock()  # a runner may run several threads in one worker
        # strings that normaliser and pre-tokenizer would leave as they are need only the model
        self._plain = plain_words_of(tokenizer)
        self._has_added = _added_in(tokenizer)
        self._segmenter = Segmenter(pieces_of(tokenizer))

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """The ids of each text, as the bytes of an array of `dtype`."""
        # at these two only: a tab or an exotic space is left to the normaliser, and a control
        # character that str.split() takes for a space is none to it (it joins its neighbours)
        spaced = pc.replace_substring(pa.array(texts, pa.large_string()), "\n", " ")
        with self._lock:
            return self._joined(pc.split_pattern(spaced, " "))

    def _joined(self, lists: pa.ListArray) -> list[bytes]:
        """The ids of each list of strings."""
        coded = lists.values.dictionary_encode()
        pool, sizes = self._look_up(coded.dictionary.to_pylist())
        codes = np.frombuffer(coded.indices.buffers()[1] or b"", np.int32)
        lengths = sizes[codes]
        ends = np.cumsum(lengths)
        # of each id, how far its place in the pool lies from its place here
        shifts = (np.cumsum(sizes) - sizes)[codes] - (ends - lengths)
        ids = pool[np.arange(lengths.sum()) + np.repeat(shifts, lengths)].tobytes()
        of_list = np.frombuffer(lists.offsets.buffers()[1], np.int32)[: len(lists) + 1]
        boundaries = np.concatenate([[0], ends])[of_list] * self.dtype.itemsize
        return [ids[start:stop] for start, stop in pairwise(boundaries.tolist())]

    def _look_up(self, strings: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The ids of distinct strings in a row, and how many each has."""
        known = self._known
        if len(known) > MAX_STRINGS:  # those met first are the frequent ones
            known = self._known = dict(islice(known.items(), MAX_STRINGS // 2))
        looked_up = list(map(known.get, strings, repeat(_UNKNOWN)))
        missing = [at for at, ids in enumerate(looked_up) if ids is _UNKNOWN]
        self._learn([strings[at] for at in missing])
        for at in missing:
            looked_up[at] = known[strings[at]]
        sizes = np.fromiter(map(len, looked_up), np.int64, len(looked_up)) // self.dtype.itemsize
        return np.frombuffer(b"".join(looked_up), self.dtype), sizes

    def _learn(self, strings: Iterable[str]) -> None:
        """Tokenise new strings: plain ones word by word, the others by all steps."""
        is_word, is_plain = self._plain.is_word, self._plain.is_plain
        words, several, others = list[str](), list[str](), list[str]()
        for string in strings:
            if self._has_added is not None and self._has_added(string):
                others.append(string)
            elif is_word(string):
                words.append(string)
            elif is_plain(string):
                (several if len(string) > 1 else words).append(string)
            else:
                others.append(string)
        known = self._known
        ids, starts = self._segmenter.ids_of(words)
        size, data = self.dtype.itemsize, ids.astype(self.dtype).tobytes()
        ends = pairwise([*(starts * size).tolist(), len(data)])
        known.update(zip(words, (data[start:end] for start, end in ends), strict=True))
        # [UNK] as a whole to the model; a step before it may set characters apart
        others.extend(word for word in words if known[word] == self._unk_bytes)
        encodings = self._tokenizer.encode_batch_fast(others, add_special_tokens=False)
        for string, encoding in zip(others, encodings, strict=True):
            known[string] = np.array(encoding.ids, self.dtype).tobytes()
        if several:
            apart = pc.replace_substring_regex(pa.array(several), self._plain.mark_re2, r" \0 ")
            known.update(zip(several, self._joined(pc.split_pattern(apart, " ")), strict=True))


def _added_in(tokenizer: Any) -> Callable[[str], object] | None:
    """Tells strings that hold a token which is cut out before all steps; None if none is."""
    tokens = tokenizer.get_added_tokens_decoder().values()
    contents = [re.escape(token.content) for token in tokens if not token.special]
    return re.compile("|".join(contents)).search if contents else None
