"""Golden files of labels and numbers: GLUE, the classification tasks of KLUE, and KLUE-NER."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.golden.adapter import (
    WORDS_OF_NUMBERS,
    Adapter,
    Comparison,
    Golden,
    attempt,
    compare_cases,
    word_pieces,
)
from benchmarks.metrics.classification import (
    MetricFunction,
    accuracy,
    f1,
    macro_f1,
    mcc,
    mean_of_accuracy_and_f1,
)
from benchmarks.metrics.glue import (
    diagnostic_mcc,
    electra_dev_8_tasks,
    glue_8_tasks_without_wnli,
    glue_9_tasks,
    task_scores,
)
from benchmarks.metrics.klue_ner_alignment import official_character_labels, official_piece_labels
from benchmarks.metrics.regression import f1_at_3, f1_at_3_float32, mse, pearson, spearman
from benchmarks.metrics.tagging import (
    character_macro_f1,
    character_macro_f1_without_o,
    entity_macro_f1,
    entity_micro_f1,
    seqeval_macro_f1,
    seqeval_micro_f1,
)

Metrics = Mapping[str, MetricFunction]  # by the name that a file has for them, on its scale


def percent(metric: MetricFunction) -> MetricFunction:
    """A metric of 0..1 times 100."""
    return lambda gold, predicted: 100 * metric(gold, predicted)


def of_rows(metrics: Metrics, metrics_of_others: Metrics | None = None) -> Adapter:
    """An adapter of files that have a list of gold values for each list of predictions.

    `metrics` stand for the names in `expected`, `metrics_of_others` for those in `expected_other`.
    """

    def adapter(golden: Golden) -> Iterator[Comparison]:
        return _compare_rows(golden, metrics, metrics_of_others or {})

    return adapter


def _compare_rows(golden: Golden, metrics: Metrics, of_others: Metrics) -> Iterator[Comparison]:
    def values(used: Metrics, case: str) -> dict[str, Any]:
        gold, predicted = rows(golden, case)
        return {name: attempt(metric, gold, predicted) for name, metric in used.items()}

    yield from compare_cases(golden["expected"], lambda case: values(metrics, case))
    for block in golden.get("expected_other", {}).values():
        yield from compare_cases(block, lambda case: values(of_others, case))


def rows(golden: Golden, case: str) -> tuple[list[Any], list[Any]]:
    """Gold and predicted values of a case; "nan" and "inf" as numbers."""
    prediction, references = golden["predictions"][case], golden["references"]
    gold = references[prediction["ref"]] if isinstance(references, Mapping) else references
    return _numbers(gold), _numbers(prediction["pred"])


def _numbers(values: list[Any]) -> list[Any]:
    return [float(value) if value in WORDS_OF_NUMBERS else value for value in values]


def _accuracy_of_glue(gold: list[int], predicted: list[int]) -> float:
    """ELECTRA's `AccuracyScorer`, which divides by the number of rows."""
    if not gold and not predicted:
        raise ValueError("there are no rows to take the accuracy of")
    return accuracy(gold, predicted)


def _tags(golden: Golden) -> Iterator[Comparison]:
    """KLUE-NER: the label list is the file's."""
    labels = golden["label_list"]

    def named(metric: Any) -> MetricFunction:
        return percent(lambda gold, predicted: metric(gold, predicted, labels))

    official = {
        "entity_macro_f1": named(entity_macro_f1),
        "character_macro_f1": named(character_macro_f1),
    }
    others = {
        "seqeval_micro_default": named(seqeval_micro_f1),
        "seqeval_macro_default": named(seqeval_macro_f1),
        "seqeval_micro_strict_iob2": named(entity_micro_f1),
        "character_macro_f1_without_O": named(character_macro_f1_without_o),
    }
    return _compare_rows(golden, official, others)


def _alignment(golden: Golden) -> Iterator[Comparison]:
    """KLUE-NER from word pieces to characters and back."""
    labels = golden["label_list"]
    tokenizers = {name: word_pieces(lines) for name, lines in golden["vocabs"].items()}

    def compute(case: str) -> Mapping[str, Any]:
        sentence = golden["references"][case]
        text, tokenizer = sentence["chars"], tokenizers[sentence["vocab"]]
        tags = [labels.index(tag) for tag in sentence["tags"]]
        predicted = golden["predictions"][case]["piece_label_ids"]

        def tokenize(word: str) -> list[str]:
            return list(tokenizer.encode(word, add_special_tokens=False).tokens)

        found, gold = official_character_labels(text, tags, predicted, tokenize, labels)
        outside, length = labels.index("O"), sentence["max_seq_length"]
        return {
            "gold_piece_label_ids": attempt(
                official_piece_labels, text, tags, tokenize, length, outside
            ),
            "char_pred_ids": found,
            "char_gold_ids": gold,
            "entity_macro_f1": 100 * entity_macro_f1(gold, found, labels),
            "character_macro_f1": 100 * character_macro_f1(gold, found, labels),
        }

    return compare_cases(golden["expected"], compute)


def _diagnostics(golden: Golden) -> Iterator[Comparison]:
    def compute(case: str) -> dict[str, float]:
        gold, predicted = rows(golden, case)
        scores = diagnostic_mcc(gold, predicted, golden["references"]["tags"])
        scores["mcc_from_confusion_matrix"] = scores["mcc"]  # two ways of one scorer
        return {name: 100 * score for name, score in scores.items()}

    return compare_cases(golden["expected"], compute)


def _overall(golden: Golden) -> Iterator[Comparison]:
    means = (task_scores, glue_9_tasks, glue_8_tasks_without_wnli, electra_dev_8_tasks)

    def compute(case: str) -> dict[str, Any]:
        return {mean.__name__: attempt(mean, golden["predictions"][case]) for mean in means}

    return compare_cases(golden["expected"], compute)


_CORRELATIONS = {"pearson": percent(pearson), "spearman": percent(spearman), "mse": mse}
_OF_GLUE = of_rows(
    {"accuracy": percent(_accuracy_of_glue), "mcc": percent(mcc)},
    {
        "matthews_correlation": mcc,
        "accuracy": accuracy,
        "f1": f1,
        "mean_of_both_x100": percent(mean_of_accuracy_and_f1),
    },
)
_OF_KLUE = of_rows({"accuracy": percent(accuracy), "macro_f1": percent(macro_f1)})
_GLUE = ("cola", "sst2", "qnli", "rte", "wnli", "mnli_matched", "mnli_mismatched", "mrpc", "qqp")
ADAPTERS: Mapping[str, Adapter] = {
    **{f"glue/{name}": _OF_GLUE for name in _GLUE},
    "klue/ynat": _OF_KLUE,
    "klue/nli": _OF_KLUE,
    "glue/stsb": of_rows(_CORRELATIONS, {"pearson": pearson, "spearmanr": spearman}),
    "glue/ax": _diagnostics,
    "glue/overall": _overall,
    "klue/sts": of_rows(
        {
            "pearsonr": percent(pearson),
            "f1": percent(f1_at_3),
            "f1_float32": percent(f1_at_3_float32),
        }
    ),
    "klue/ner": _tags,
    "klue/ner (word pieces to characters)": _alignment,
}
