"""Golden files of what stands around a model: inputs made of examples, and answers out of outputs.

The harness takes answers by character offsets (`benchmarks.tasks.features`). The official
code had no offsets and compares texts, as BERT's does; `project` follows google-research/electra
finetune/qa/qa_metrics.py `get_final_text` and the same of transformers 3.5.1.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from transformers.models.bert.tokenization_bert_legacy import BasicTokenizer

from benchmarks.metrics import tags as metrics
from benchmarks.metrics.reading import klue_mrc
from benchmarks.tasks.dialogue import recovered_state
from benchmarks.tasks.features import Lengths, QuestionExample, Window, window_rows
from benchmarks.tasks.labels import MARKERS, entity_inputs, entity_span, marked
from benchmarks.tasks.spans import (
    SpanTable,
    TextOf,
    best_text,
    electra_answer,
    klue_answer,
    spans_of_beam,
    spans_of_logits,
)
from tests.benchmarks.records import DP, bert_tokenizer
from tests.golden.compare import (
    Adapter,
    Comparison,
    Golden,
    attempt,
    compare_cases,
    of_cases,
    percent,
)
from tests.golden.scores import gold_answers, questions

_WORD = re.compile("[^ \t\r\n\u202f]+")


def _alignment(golden: Golden, case: str) -> Mapping[str, Any]:
    """KLUE-NER from word pieces to characters and back."""
    labels, sentence = golden["label_list"], golden["references"][case]
    text, tokenize = sentence["chars"], bert_tokenizer(golden["vocabs"][sentence["vocab"]]).tokenize
    tags = [labels.index(tag) for tag in sentence["tags"]]
    predicted = golden["predictions"][case]["piece_label_ids"]
    found, gold = metrics.official_character_labels(text, tags, predicted, tokenize, labels)
    outside, length = labels.index("O"), sentence["max_seq_length"]
    pieces = attempt(official_piece_labels, text, tags, tokenize, length, outside)
    return {
        "gold_piece_label_ids": pieces,
        "char_pred_ids": found,
        "char_gold_ids": gold,
        "entity_macro_f1": 100 * metrics.entity_macro_f1(gold, found, labels),
        "character_macro_f1": 100 * metrics.character_macro_f1(gold, found, labels),
    }


def official_piece_labels(
    text: str, tags: Sequence[int], tokenize: metrics.Tokenize, max_length: int, outside: int
) -> list[int]:
    """The gold label of every piece from [CLS] to [SEP], which both have `outside`.

    `tags` has one label a character of `text`, blanks included. In a word with an [UNK] every piece
    has the label of the word's first character. Raises `ValueError` where a tokenizer gives more
    characters than the text has.
    """
    of_characters = metrics.without_blanks(text, tags)
    labels: list[int] = []
    position = 0
    for word in text.split(" "):
        pieces = tokenize(word)
        for piece in pieces:
            if position >= len(of_characters):
                raise ValueError(f"the pieces of {text!r} have more characters than it has labels")
            labels.append(of_characters[position])
            if metrics.UNKNOWN_PIECE not in pieces:
                position += metrics.piece_width(piece)
        if metrics.UNKNOWN_PIECE in pieces:
            position += len(word)
    return [outside, *labels[: max_length - 2], outside]


def _relation_inputs(golden: Golden, guid: str) -> Mapping[str, Any]:
    row, tokenizer = golden["references"][guid], bert_tokenizer(golden["vocab"], added=MARKERS)
    spans = [entity_span(row[name], guid) for name in ("subject_entity", "object_entity")]
    text = marked(row["sentence"], *spans)
    if text.endswith(">"):  # the official code reads one character on
        raise ValueError(f"{text} ends in a marker")
    ids = entity_inputs([text], tokenizer, golden["max_seq_length"])[0]
    tokens = tokenizer.convert_ids_to_tokens(ids)
    return {"marked": text, "tokens": tokens, "token_type_ids": [0] * len(ids)}


def _parsing_inputs(golden: Golden) -> Iterator[Comparison]:
    """All sentences are one batch; rows of six columns, as in the official file."""
    tokenizer = bert_tokenizer(golden["vocab"])
    guids = list(golden["references"])
    examples: list[Any] = []
    for guid in guids:
        columns = [list(column) for column in zip(*golden["references"][guid]["rows"], strict=True)]
        names = ("index", "word_form", "lemma", "pos", "head", "deprel")
        row = dict(zip(names, columns, strict=True))
        examples += DP.examples(row, guid, guid, is_labelled=True)
    features = DP.featurize(examples, tokenizer, golden["max_seq_length"], train=False)
    batch = DP.label_arrays(features, np.arange(len(guids)), int(features.lengths.max()))

    def compute(guid: str) -> Mapping[str, Any]:
        row = guids.index(guid)
        num_words = int(batch["num_words"][row])
        return {
            "pieces": tokenizer.convert_ids_to_tokens(features.input_ids[row].tolist()),
            "first_piece_positions": batch["first"][row, :num_words].tolist(),
            "last_piece_positions": batch["last"][row, :num_words].tolist(),
            "head_ids": batch["heads"][row].tolist(),
            "type_ids": batch["arc_labels"][row].tolist(),
            "pos_ids": batch["pos"][row].tolist(),
            "word_mask": [int(word < num_words) for word in range(batch["heads"].shape[1])],
        }

    yield from compare_cases(golden["expected"], compute)


def _dialogue_states(golden: Golden, case: str) -> list[str]:
    prediction = golden["predictions"][case]
    gates = [golden["gates"][gate] for gate in prediction["gates"]]
    generated = prediction["generated_ids"]
    return recovered_state(golden["slot_meta"], gates, generated, bert_tokenizer(golden["vocab"]))


def _compare_windows(golden: Golden, types_name: str) -> Iterator[Comparison]:
    """The rows that the harness makes of the questions beside the windows of the file."""
    settings = golden["featurize_settings"]
    names = "max_seq_length", "max_query_length", "doc_stride"
    lengths = Lengths(*(settings[name] for name in names))
    tokenizer = bert_tokenizer(golden["vocab"], lower_case=settings["do_lower_case"])
    examples = [QuestionExample(key, (text, qa["question"])) for key, text, qa in questions(golden)]
    rows, _ = window_rows(examples, tokenizer, lengths, train=False)
    given = sorted(golden["features"].items(), key=lambda item: int(item[0]))
    if len(given) != len(rows.input_ids):
        yield Comparison("windows", "number", len(given), len(rows.input_ids))
        return
    for row, (number, feature) in enumerate(given):
        example, window = examples[rows.example_of[row]], rows.details["windows"][row]
        starts = [start for _, start in blank_separated_words(example.context)]
        words = np.searchsorted(starts, window.offsets[:, 0], side="right") - 1
        computed = {
            "id": example.id,
            "tokens": tokenizer.convert_ids_to_tokens(rows.input_ids[row].tolist()),
            types_name: rows.token_type_ids[row].tolist(),
            "token_to_word": {str(window.first + n): word for n, word in enumerate(words.tolist())},
            "max_context": (np.flatnonzero(window.is_max_context) + window.first).tolist(),
        }
        for name, value in computed.items():
            expected = feature[name]
            if name == types_name:  # padded in the file
                expected = expected[: len(feature["tokens"])]
            yield Comparison(f"window {number}", name, expected, value)


def _electra_answers(golden: Golden) -> Iterator[Comparison]:
    """Answers, n best texts and null odds of ELECTRA; and the windows they are read from."""

    def compute(case: str) -> Mapping[str, Any]:
        settings = golden["predictions"][case]["settings"]
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for question, rows, tables, text_of in _questions(golden, case, first_mark_is_kept=False):
            are_odds, nulls = settings["answerable_classifier"], None
            if settings["version_2"]:
                names = ("answerable_logit",) if are_odds else ("start_logits", "end_logits")
                nulls = [sum(float(row[name].flat[0]) for name in names) for row in rows]
            answer = electra_answer(tables, text_of, settings["n_best_size"], nulls)
            odds = answer.null_odds
            if odds is not None and not are_odds:  # the logits of "no answer" less those of a text
                odds -= best_text(answer.candidates).score
            found["predictions"][question] = answer.text
            found["null_odds"][question] = odds
            found["nbest_scores_top5"][question] = [one.score for one in answer.candidates[:5]]
            found["nbest_probabilities_top5"][question] = answer.probabilities[:5]
        return found

    yield from compare_cases(golden["expected"], compute)
    yield from _compare_windows(golden, "segment_ids")


def _klue_answers(golden: Golden) -> Iterator[Comparison]:
    """Answers, n best texts, null odds and scores of KLUE-MRC; and the windows."""

    def compute(case: str) -> Mapping[str, Any]:
        settings = golden["predictions"][case]["settings"]
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for question, rows, tables, text_of in _questions(golden, case, first_mark_is_kept=True):
            nulls = [(row["start_logits"][0], row["end_logits"][0]) for row in rows]
            nulls_or_none = nulls if settings["version_2"] else None
            best = klue_answer(tables, text_of, settings["n_best_size"], nulls_or_none)
            odds, threshold = best.null_odds, settings["null_score_diff_threshold"]
            is_empty = odds is not None and odds > threshold
            found["predictions"][question] = "" if is_empty else best.text
            found["null_odds"][question] = odds
            found["nbest_top3"][question] = [
                {"text": candidate.text, "probability": probability}
                for candidate, probability in zip(best.candidates, best.probabilities, strict=True)
            ][:3]
        return found | percent(klue_mrc(gold_answers(golden), found["predictions"]))

    yield from compare_cases(golden["expected"], compute)
    yield from _compare_windows(golden, "token_type_ids")


Row = Mapping[str, Any]  # outputs of a network for one window, by name


def _questions(
    golden: Golden, case: str, first_mark_is_kept: bool
) -> Iterator[tuple[str, list[Row], list[SpanTable], TextOf]]:
    """Of every question what the network gives for its windows, the spans in these, and the
    official way from a span to a text."""
    given, lower_case = golden["predictions"][case], golden["featurize_settings"]["do_lower_case"]
    for question, context, _ in questions(golden):
        numbers = sorted((n for n, f in golden["features"].items() if f["id"] == question), key=int)
        features = [golden["features"][number] for number in numbers]
        outputs = (given["outputs"][number].items() for number in numbers)
        rows = [{name: np.array(values) for name, values in output} for output in outputs]
        words = [word for word, _ in blank_separated_words(context)]

        def text_of(
            window: int, start: int, end: int, features: Any = features, words: Any = words
        ) -> str:
            feature = features[window]
            text = joined_pieces(feature["tokens"][start : end + 1], first_mark_is_kept)
            first, last = (feature["token_to_word"][str(position)] for position in (start, end))
            return project(text, words[first : last + 1], lower_case)

        windows = enumerate(zip(features, rows, strict=True))
        tables = [_table(n, feature, row, given["settings"]) for n, (feature, row) in windows]
        yield question, rows, tables, text_of


def _table(number: int, feature: Row, row: Row, settings: Mapping[str, Any]) -> SpanTable:
    """The spans of a window, from a beam or from logits."""
    positions, longest = sorted(map(int, feature["token_to_word"])), settings["max_answer_length"]
    no_offsets = np.zeros((0, 2), dtype=np.int32)  # texts are made of words
    window = Window(positions[0], np.isin(positions, feature["max_context"]), no_offsets)
    if settings.get("joint_prediction"):
        names = ("start_top_index", "end_top_index", "start_top_log_probs", "end_top_log_probs")
        return spans_of_beam(window, number, *(row[name] for name in names), longest)
    logits = row["start_logits"], row["end_logits"]
    return spans_of_logits(window, number, *logits, settings["n_best_size"], longest)


def blank_separated_words(context: str) -> list[tuple[str, int]]:
    """Each word of a context and the position of its first character.

    Words end at blank, tab, line ends and the narrow no-break space only.
    """
    return [(match[0], match.start()) for match in _WORD.finditer(context)]


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
    basic: Any = BasicTokenizer  # partly typed
    source = " ".join(words)
    split = " ".join(basic(do_lower_case=lower_case).tokenize(source))
    found = split.find(text)
    places = [position for position, character in enumerate(source) if character != " "]
    if not text or found < 0 or len(places) != len(split.replace(" ", "")):
        return source
    first = len(split[:found].replace(" ", ""))
    last = first + len(text.replace(" ", "")) - 1
    return source[places[first] : places[last] + 1]


ADAPTERS: Mapping[str, Adapter] = {
    "klue/ner (word pieces to characters)": of_cases(_alignment),
    "klue/re (input construction)": of_cases(_relation_inputs),
    "klue/dp (input construction)": _parsing_inputs,
    "klue/wos (gates and generated values to state strings)": of_cases(_dialogue_states),
    "squad (model outputs to answers and null odds)": _electra_answers,
    "klue/mrc (model outputs to answers)": _klue_answers,
}
