"""The windows of golden reading files beside the rows that the harness makes of their questions."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tokenizers import normalizers, processors
from transformers import PreTrainedTokenizerFast

from benchmarks.golden.adapter import Comparison, Golden
from benchmarks.golden.reading_scores import identity, questions
from benchmarks.golden.word_projection import blank_separated_words
from benchmarks.golden.wordpiece import word_pieces
from benchmarks.kind import Features
from benchmarks.kinds.spans_features import Lengths
from benchmarks.kinds.spans_files import QuestionExample
from benchmarks.kinds.spans_rows import window_rows

_TOKENIZER: Any = PreTrainedTokenizerFast  # partly typed


def compare_windows(golden: Golden, types_name: str) -> Iterator[Comparison]:
    """The rows that the harness makes of the questions beside the windows of the file."""
    settings = golden["featurize_settings"]
    lengths = Lengths(
        settings["max_seq_length"], settings["max_query_length"], settings["doc_stride"]
    )
    tokenizer = _tokenizer(golden["vocab"], settings["do_lower_case"])
    contexts = {identity(qa): context for context, qa in questions(golden)}
    examples = [
        QuestionExample(identity(qa), (context, qa["question"]))
        for context, qa in questions(golden)
    ]
    rows, _ = window_rows(examples, tokenizer, lengths, train=False)
    given = sorted(golden["features"].items(), key=lambda item: int(item[0]))
    if len(given) != len(rows.input_ids):
        yield Comparison("windows", "number", len(given), len(rows.input_ids))
        return
    for row, (number, feature) in enumerate(given):
        context = contexts[feature["id"]]
        computed = {
            "id": examples[rows.example_of[row]].id,
            "tokens": tokenizer.convert_ids_to_tokens(rows.input_ids[row].tolist()),
            types_name: rows.token_type_ids[row].tolist(),
            "token_to_word": _words_of_pieces(rows, row, context),
            "max_context": _max_context_positions(rows, row),
        }
        for name, value in computed.items():
            expected = feature[name]
            if name == types_name:  # padded in the file
                expected = expected[: len(feature["tokens"])]
            yield Comparison(f"window {number}", name, expected, value)


def _tokenizer(vocabulary: Sequence[str], lower_case: bool) -> Any:
    tokenizer = word_pieces(vocabulary)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    return _TOKENIZER(tokenizer_object=tokenizer)


def _words_of_pieces(rows: Features, row: int, context: str) -> dict[str, int]:
    starts = [start for _, start in blank_separated_words(context)]
    first = rows.details["first"][row]
    return {
        str(first + n): int(np.searchsorted(starts, begin, side="right")) - 1
        for n, (begin, _) in enumerate(rows.details["offsets"][row])
    }


def _max_context_positions(rows: Features, row: int) -> list[int]:
    positions = np.flatnonzero(rows.details["is_max_context"][row]) + rows.details["first"][row]
    return [int(position) for position in positions]
