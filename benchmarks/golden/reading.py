"""Golden files of reading comprehension: SQuAD, KorQuAD and KLUE-MRC.

Two sorts: scores of given answers, and answers from a model's outputs by the official
post-processing. The harness takes answers by character offsets
(`benchmarks.tasks.kinds.spans_decode`). The official code had no offsets and compares texts, as
BERT's does; `project` follows google-research/electra finetune/qa/qa_metrics.py `get_final_text`
and the same of transformers 3.5.1.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import normalizers, processors
from transformers import PreTrainedTokenizerFast

from benchmarks.golden.adapter import Adapter, Comparison, Golden, compare_cases, word_pieces
from benchmarks.metrics import klue_mrc
from benchmarks.metrics.korquad import korquad
from benchmarks.metrics.squad import squad_v1, squad_v2
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

_NO_PERCENT = ("total", "thresh")  # ends of names whose values are counts or thresholds
_TOKENIZER: Any = PreTrainedTokenizerFast  # partly typed
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


def _squad_v1(golden: Golden) -> Iterator[Comparison]:
    gold = gold_answers(golden)
    for block in (golden["expected"], *golden.get("expected_other", {}).values()):
        yield from compare_cases(
            block, lambda case: percent(squad_v1(gold, golden["predictions"][case]))
        )


def _squad_v2(golden: Golden) -> Iterator[Comparison]:
    gold = gold_answers(golden)

    def compute(case: str) -> Mapping[str, float]:
        given = golden["predictions"][case]
        return percent(squad_v2(gold, given["pred"], given["na_probs"], given["na_prob_thresh"]))

    return compare_cases(golden["expected"], compute)


def _korquad(golden: Golden) -> Iterator[Comparison]:
    gold = gold_answers(golden)

    def compute(case: str) -> Mapping[str, float]:
        values = percent(korquad(gold, golden["predictions"][case]))
        return {f"official_{name}": value for name, value in values.items()}

    return compare_cases(golden["expected"], compute)


def _klue_mrc(golden: Golden) -> Iterator[Comparison]:
    gold = gold_answers(golden)
    types = {qa["guid"]: qa["question_type"] for _, qa in questions(golden)}

    def compute(case: str) -> Mapping[str, float]:
        return percent(klue_mrc.klue_mrc(gold, golden["predictions"][case], types))

    yield from compare_cases(golden["expected"], compute)
    for block in golden.get("expected_other", {}).values():
        yield from compare_cases(
            block, lambda case: klue_mrc.klue_mrc_of_predicted(gold, golden["predictions"][case])
        )
    for number, pair in enumerate(golden.get("single_pairs", ())):
        texts = (pair["pred"], pair["gold"])
        computed: dict[str, Any] = {
            "pred_normalised": klue_mrc.normalize_answer(texts[0]),
            "gold_normalised": klue_mrc.normalize_answer(texts[1]),
            "em": klue_mrc.exact_match(*texts),
            "rouge_w": klue_mrc.rouge_w(*texts),
        }
        for name, value in computed.items():
            yield Comparison(f"single pair {number}", name, pair[name], value)


def questions(golden: Golden) -> list[tuple[str, Mapping[str, Any]]]:
    """Context and question of every row of a SQuAD file."""
    return [
        (paragraph["context"], qa)
        for article in golden["references"]["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def identity(qa: Mapping[str, Any]) -> str:
    return str(qa["guid"] if "guid" in qa else qa["id"])


def gold_answers(golden: Golden) -> dict[str, list[str]]:
    return {
        identity(qa): [answer["text"] for answer in qa["answers"]] for _, qa in questions(golden)
    }


def percent(values: Mapping[str, float]) -> dict[str, float]:
    return {
        name: value if name.endswith(_NO_PERCENT) else 100 * value for name, value in values.items()
    }


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
            **percent(klue_mrc.klue_mrc(gold_answers(golden), predictions)),
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


ADAPTERS: Mapping[str, Adapter] = {
    "squad_v1.1": _squad_v1,
    "squad_v2.0": _squad_v2,
    "korquad_v1.0": _korquad,
    "klue/mrc": _klue_mrc,
    "squad (model outputs to answers and null odds)": _electra_answers,
    "klue/mrc (model outputs to answers)": _klue_answers,
}
