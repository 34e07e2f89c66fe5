"""What a sort of golden file has to say for the self-test: its values beside what we compute.

A module of adapters (`labels`, `reading`, `structured`, `statistics`) exports `ADAPTERS`: the
adapter for each `task` string of a golden file, written in full. An adapter yields one comparison
for every name of every case of `expected` and of each block of `expected_other`; `check` counts
what is left out as not covered, so that nothing agrees by silence.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

_MAX_WORD_LENGTH = 100  # longer words are [UNK], as `transformers` has it
WORDS_OF_NUMBERS = ("nan", "inf", "-inf")  # how files write floats that JSON has not
Golden = Mapping[str, Any]  # one file: task, references, predictions, expected, ...


class Refused(NamedTuple):
    """In place of a value: our code does not take this input."""

    message: str


class Comparison(NamedTuple):
    """One expected value of a golden file beside ours.

    `expected` is as the file writes it: numbers, text, "nan" and "inf" as text, lists and mappings
    of these, or `{"error": ...}`, which only `Refused` equals. `computed` has the file's scale.
    """

    case: str
    name: str  # the key in the case's `expected`; "" where the case is one value or one error
    expected: Any
    computed: Any
    absolute_tolerance: float = 1e-12  # of sums in another order; 0 for values as small as p


Adapter = Callable[[Golden], Iterator[Comparison]]


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """The value of a function, or `Refused` where it raises `ValueError`."""
    try:
        return function(*arguments)
    except ValueError as error:
        return Refused(str(error))


def is_error(expected: Any) -> bool:
    """Whether the official scorer stops here: `{"error": exception name}`."""
    return isinstance(expected, Mapping) and set(expected) == {"error"}


def compare_cases(cases: Mapping[str, Any], compute: Callable[[str], Any]) -> Iterator[Comparison]:
    """Every value of one block of cases beside `compute(case)`.

    That is a mapping by name (values of it may be `Refused`) where the file has one, else the value
    itself; a `ValueError` of `compute` refuses the whole case.
    """
    for case, expected in cases.items():
        computed = attempt(compute, case)
        if is_error(expected) or not isinstance(expected, Mapping):
            yield Comparison(case, "", expected, computed)
            continue
        for name, value in expected.items():
            if isinstance(computed, Refused):
                yield Comparison(case, name, value, computed)
            elif name in computed:
                yield Comparison(case, name, value, computed[name])


def word_pieces(vocabulary: Sequence[str]) -> Tokenizer:
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
    return tokenizer
