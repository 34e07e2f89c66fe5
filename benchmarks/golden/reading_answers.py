"""Golden files from a reading model's outputs to answers, by the official post-processing."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import normalizers, processors
from transformers import PreTrainedTokenizerFast

from benchmarks.golden.adapter import Adapter, Comparison, Golden, compare_cases
from benchmarks.golden.reading_scores import gold_answers, identity, percent, questions
from benchmarks.golden.words import blank_separated_words, joined_pieces, project, word_pieces
from benchmarks.metrics.klue_mrc import klue_mrc
from benchmarks.tasks.kind import Features
from benchmarks.tasks.kinds.spans_decode import (
    Answer,
    SpanTable,
    TextOf,
    Window,
    electra_answer,
    klue_answer,
    spans_of_beam,
    spans_of_logits,
)
from benchmarks.tasks.kinds.spans_features import Lengths, window_rows
from benchmarks.tasks.kinds.spans_files import QuestionExample

# The windows of golden reading files beside the rows that the harness makes of their questions.

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


def _electra_answers(golden: Golden) -> Iterator[Comparison]:
    """Answers, n best texts and null odds of ELECTRA; and the windows they are read from."""
    windows = _windows(golden, first_mark_is_kept=False)

    def compute(case: str) -> Mapping[str, Any]:
        given = golden["predictions"][case]
        settings, outputs = given["settings"], given["outputs"]
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for question, (features, seen, text_of) in windows.items():
            rows = [outputs[feature] for feature in features]
            tables = [
                _electra_table(window, number, row, settings)
                for number, (window, row) in enumerate(zip(seen, rows, strict=True))
            ]
            are_odds, nulls = settings["answerable_classifier"], None
            if settings["version_2"]:
                nulls = [
                    row["answerable_logit"]
                    if are_odds
                    else row["start_logits"][0] + row["end_logits"][0]
                    for row in rows
                ]
            answer = electra_answer(tables, text_of, settings["n_best_size"], nulls, are_odds)
            found["predictions"][question] = answer.text
            found["null_odds"][question] = answer.null_odds
            best = found["nbest_scores_top5"], found["nbest_probabilities_top5"]
            best[0][question] = [candidate.score for candidate in answer.n_best[:5]]
            best[1][question] = answer.probabilities[:5]
        return found

    yield from compare_cases(golden["expected"], compute)
    yield from compare_windows(golden, "segment_ids")


def _electra_table(
    window: Window, number: int, row: Mapping[str, Any], settings: Mapping[str, Any]
) -> SpanTable:
    if settings["joint_prediction"]:
        return spans_of_beam(
            window,
            number,
            np.array(row["start_top_index"]),
            np.array(row["end_top_index"]),
            np.array(row["start_top_log_probs"]),
            np.array(row["end_top_log_probs"]),
            settings["max_answer_length"],
        )
    return _logit_table(window, number, row, settings)


def _klue_answers(golden: Golden) -> Iterator[Comparison]:
    """Answers, n best texts, null odds and scores of KLUE-MRC; and the windows."""
    windows = _windows(golden, first_mark_is_kept=True)

    def compute(case: str) -> Mapping[str, Any]:
        given = golden["predictions"][case]
        settings, outputs = given["settings"], given["outputs"]
        answers: dict[str, Answer] = {}
        for question, (features, seen, text_of) in windows.items():
            rows = [outputs[feature] for feature in features]
            tables = [
                _logit_table(window, number, row, settings)
                for number, (window, row) in enumerate(zip(seen, rows, strict=True))
            ]
            nulls = [(row["start_logits"][0], row["end_logits"][0]) for row in rows]
            answers[question] = klue_answer(
                tables, text_of, settings["n_best_size"], nulls if settings["version_2"] else None
            )
        predictions = {
            question: _after_threshold(answer, settings["null_score_diff_threshold"])
            for question, answer in answers.items()
        }
        return {
            "predictions": predictions,
            "null_odds": {question: answer.null_odds for question, answer in answers.items()},
            "nbest_top3": {
                question: [
                    {"text": candidate.text, "probability": probability}
                    for candidate, probability in zip(
                        answer.n_best, answer.probabilities, strict=True
                    )
                ][:3]
                for question, answer in answers.items()
            },
            **percent(klue_mrc(gold_answers(golden), predictions)),
        }

    yield from compare_cases(golden["expected"], compute)
    yield from compare_windows(golden, "token_type_ids")


def _after_threshold(answer: Answer, threshold: float) -> str:
    is_dropped = answer.null_odds is not None and answer.null_odds > threshold
    return "" if is_dropped else answer.text


def _logit_table(
    window: Window, number: int, row: Mapping[str, Any], settings: Mapping[str, Any]
) -> SpanTable:
    return spans_of_logits(
        window,
        number,
        np.array(row["start_logits"]),
        np.array(row["end_logits"]),
        settings["n_best_size"],
        settings["max_answer_length"],
    )


_QuestionWindows = tuple[list[str], list[Window], TextOf]  # feature ids, windows, text of a span


def _windows(golden: Golden, first_mark_is_kept: bool) -> dict[str, _QuestionWindows]:
    """The windows of every question as the file has them, and its official way to a text."""
    contexts = {identity(qa): context for context, qa in questions(golden)}
    features_of: dict[str, list[str]] = {question: [] for question in contexts}
    for number in sorted(golden["features"], key=int):
        features_of[golden["features"][number]["id"]].append(number)
    lower_case = golden["featurize_settings"]["do_lower_case"]
    found = {}
    for question, numbers in features_of.items():
        features = [golden["features"][number] for number in numbers]
        words = [word for word, _ in blank_separated_words(contexts[question])]
        found[question] = (
            numbers,
            [_window(feature) for feature in features],
            _text_by_words(features, words, lower_case, first_mark_is_kept),
        )
    return found


def _window(feature: Mapping[str, Any]) -> Window:
    positions = sorted(map(int, feature["token_to_word"]))
    return Window(positions[0], np.isin(positions, feature["max_context"]))


def _text_by_words(
    features: Sequence[Mapping[str, Any]],
    words: Sequence[str],
    lower_case: bool,
    first_mark_is_kept: bool,
) -> TextOf:
    def text_of(window: int, start: int, end: int) -> str:
        feature = features[window]
        pieces = feature["tokens"][start : end + 1]
        first, last = (feature["token_to_word"][str(position)] for position in (start, end))
        text = joined_pieces(pieces, first_mark_is_kept)
        return project(text, words[first : last + 1], lower_case)

    return text_of


ADAPTERS: Mapping[str, Adapter] = {
    "squad (model outputs to answers and null odds)": _electra_answers,
    "klue/mrc (model outputs to answers)": _klue_answers,
}
