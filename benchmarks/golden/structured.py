"""Golden files of KLUE's relation extraction, dependency parsing and dialogue state tracking."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from transformers import BertTokenizer

from benchmarks.golden.adapter import Adapter, Comparison, Golden, compare_cases
from benchmarks.metrics import dialogue, parsing, relations
from benchmarks.metrics.parsing import Arcs
from benchmarks.tasks.kinds.dialogue import recovered_state
from benchmarks.tasks.kinds.parsing import DependencyParsing, SentenceExample
from benchmarks.tasks.kinds.parsing_words import Word, sentence_words
from benchmarks.tasks.kinds.relations import MARKERS, entity_inputs, entity_span, marked
from benchmarks.tasks.klue_structured import DP
from benchmarks.tasks.task import Task

PERCENT = 100.0


def _relations(golden: Golden) -> Iterator[Comparison]:
    no_relation = golden["label_list"].index("no_relation")

    def compute(case: str, area: Any) -> Mapping[str, float]:
        prediction = golden["predictions"][case]
        gold = golden["references"][prediction["ref"]]
        probabilities = np.array(prediction["probs"])
        predicted = probabilities.argmax(axis=1)
        return {
            "micro_f1": PERCENT * relations.micro_f1(gold, predicted, no_relation),
            "auprc": PERCENT * area(gold, probabilities),
        }

    yield from compare_cases(golden["expected"], lambda case: compute(case, relations.auprc))
    for cases in golden.get("expected_other", {}).values():  # current scikit-learn
        yield from compare_cases(cases, lambda case: compute(case, relations.auprc_absent_as_half))


def _relation_inputs(golden: Golden) -> Iterator[Comparison]:
    tokenizer = _tokenizer(golden["vocab"], MARKERS)

    def compute(guid: str) -> Mapping[str, Any]:
        row = golden["references"][guid]
        spans = [entity_span(row[name], guid) for name in ("subject_entity", "object_entity")]
        text = marked(row["sentence"], *spans)
        ids = entity_inputs([text], tokenizer, golden["max_seq_length"])[0]
        return {
            "marked": text,
            "tokens": tokenizer.convert_ids_to_tokens(ids),
            "token_type_ids": [0] * len(ids),
        }

    yield from compare_cases(golden["expected"], compute)


def _parsing(golden: Golden) -> Iterator[Comparison]:
    metrics = (
        parsing.uas_macro_f1,
        parsing.uas_micro_f1,
        parsing.las_macro_f1,
        parsing.las_micro_f1,
    )

    def compute(case: str) -> Mapping[str, float]:
        prediction = golden["predictions"][case]
        gold = _arcs(golden["references"][prediction["ref"]])
        predicted = _arcs(prediction)
        return {metric.__name__: PERCENT * metric(gold, predicted) for metric in metrics}

    yield from compare_cases(golden["expected"], compute)


def _arcs(sentences: Mapping[str, Sequence[Sequence[int]]]) -> Arcs:
    heads, types = (
        np.array([value for row in sentences[key] for value in row], dtype=np.int64)
        for key in ("heads", "types")
    )
    return Arcs(heads, types)


def _parsing_inputs(golden: Golden) -> Iterator[Comparison]:
    """All sentences are one batch."""
    tokenizer = _tokenizer(golden["vocab"])
    task: Task = DP
    kind = DependencyParsing()
    guids = list(golden["references"])
    sentences = [_words(golden["references"][guid]["rows"], guid) for guid in guids]
    examples = [
        SentenceExample(guid, (" ".join(word.form for word in words),), tuple(words))
        for guid, words in zip(guids, sentences, strict=True)
    ]
    features = kind.featurize(task, examples, tokenizer, golden["max_seq_length"], train=False)
    rows = np.arange(len(guids))
    batch = kind.label_arrays(features, rows, int(features.lengths.max()))

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


def _words(rows: Sequence[Sequence[str]], guid: str) -> list[Word]:
    """Rows of six columns, as in the official file."""
    _, forms, _, tags, heads, labels = zip(*rows, strict=True)
    columns = {"word_form": forms, "pos": tags, "head": heads, "deprel": labels}
    return sentence_words(columns, guid)


def _dialogue(golden: Golden) -> Iterator[Comparison]:
    def compute(case: str) -> Mapping[str, float]:
        prediction = golden["predictions"][case]
        gold = golden["references"][prediction["ref"]]
        return {
            "joint_goal_acc": PERCENT * dialogue.joint_goal_acc(gold, prediction["pred"]),
            "slot_micro_f1": PERCENT * dialogue.slot_micro_f1(gold, prediction["pred"]),
        }

    yield from compare_cases(golden["expected"], compute)


def _dialogue_states(golden: Golden) -> Iterator[Comparison]:
    tokenizer = _tokenizer(golden["vocab"])
    slots = golden["slot_meta"]

    def compute(case: str) -> list[str]:
        prediction = golden["predictions"][case]
        gates = [golden["gates"][gate] for gate in prediction["gates"]]
        return recovered_state(slots, gates, prediction["generated_ids"], tokenizer)

    yield from compare_cases(golden["expected"], compute)


def _tokenizer(vocab: Sequence[str], added: Sequence[str] = ()) -> Any:
    """A cased BERT tokenizer of the file's vocabulary."""
    ids = {piece: number for number, piece in enumerate(vocab)}
    tokenizer: Any = BertTokenizer(vocab=ids, do_lower_case=False)
    if added:
        tokenizer.add_special_tokens({"additional_special_tokens": list(added)})
    return tokenizer


ADAPTERS: Mapping[str, Adapter] = {
    "klue/re": _relations,
    "klue/re (input construction)": _relation_inputs,
    "klue/dp": _parsing,
    "klue/dp (input construction)": _parsing_inputs,
    "klue/wos": _dialogue,
    "klue/wos (gates and generated values to state strings)": _dialogue_states,
}
