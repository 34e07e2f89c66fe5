"""Golden files of scores: metrics of given labels, numbers, answers, arcs and states."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.metrics import labels, reading, structured, tags
from benchmarks.tasks.task import MetricFunction
from tests.golden.compare import (
    WORDS_OF_NUMBERS,
    Adapter,
    Comparison,
    Compute,
    Golden,
    attempt,
    of_cases,
    percent,
)

_NUM_RESAMPLES = 2000  # where a case does not say
_MAX_RESAMPLES = 20_000
_RESAMPLES_A_CHUNK = 1000


def times_100(metric: MetricFunction) -> MetricFunction:
    """A metric of 0..1 in percent."""
    return lambda gold, predicted: 100 * metric(gold, predicted)


def reference(golden: Golden, case: str) -> Any:
    """The gold values that a case names, or the one list of gold values."""
    references = golden["references"]
    prediction = golden["predictions"][case]
    return references[prediction["ref"]] if isinstance(references, Mapping) else references


def rows(golden: Golden, case: str) -> tuple[list[Any], list[Any]]:
    """Gold and predicted values of a case; "nan" and "inf" as numbers."""
    gold, predicted = (
        [float(value) if value in WORDS_OF_NUMBERS else value for value in values]
        for values in (reference(golden, case), golden["predictions"][case]["pred"])
    )
    return gold, predicted


def of_rows(
    metrics: Mapping[str, MetricFunction], others: Mapping[str, MetricFunction] | None = None
) -> Adapter:
    """Of files that have a list of gold values for each list of predictions; metrics by the names
    in `expected` and in `expected_other`."""

    def values(used: Mapping[str, MetricFunction]) -> Compute:
        return lambda golden, case: {
            name: attempt(metric, *rows(golden, case)) for name, metric in used.items()
        }

    return of_cases(values(metrics), values(others or {}))


def _accuracy_of_glue(gold: list[int], predicted: list[int]) -> float:
    """ELECTRA's `AccuracyScorer`, which divides by the number of rows."""
    if not gold:
        raise ValueError("there are no rows to take the accuracy of")
    return labels.accuracy(gold, predicted)


def _mse(gold: list[float], predicted: list[float]) -> float:
    return float(np.mean((np.array(gold) - predicted) ** 2))


def _tags(golden: Golden) -> Iterator[Comparison]:
    """KLUE-NER: the label list is the file's."""

    def named(metric: Any) -> MetricFunction:
        return times_100(lambda gold, predicted: metric(gold, predicted, golden["label_list"]))

    names = ("entity_macro_f1", "character_macro_f1")
    official = {name: named(getattr(tags, name)) for name in names}
    others = {
        "seqeval_micro_default": named(tags.seqeval_micro_f1),
        "seqeval_macro_default": named(_seqeval_macro_f1),
        "seqeval_micro_strict_iob2": named(tags.entity_micro_f1),
        "character_macro_f1_without_O": named(_character_macro_f1_without_o),
    }
    return of_rows(official, others)(golden)


def _seqeval_macro_f1(gold: list[int], predicted: list[int], labels: Sequence[str]) -> float:
    score = tags.entity_f1_sampler(gold, predicted, labels, [len(gold)], "seqeval_macro_f1")
    return score(np.zeros(1, dtype=np.int64))


def _character_macro_f1_without_o(
    gold: list[int], predicted: list[int], names: Sequence[str]
) -> float:
    """As KLUE's paper has it: O is no class."""
    return labels.mean_f1(gold, predicted, range(len(names) - 1), absent=1.0)


def _diagnostics(golden: Golden, case: str) -> dict[str, float]:
    """AX: R_3 over all rows and over those of each tag."""
    gold, predicted = (np.array(side) for side in rows(golden, case))
    found = dict.fromkeys(("mcc", "mcc_from_confusion_matrix"), labels.mcc(gold, predicted))
    for tag, numbers in golden["references"]["tags"].items():
        found[f"mcc_tag_{tag}"] = labels.mcc(gold[numbers], predicted[numbers])
    return percent(found)


def _overall(golden: Golden, case: str) -> dict[str, Any]:
    names = ("glue_9_tasks", "glue_8_tasks_without_wnli", "electra_dev_8_tasks")
    given = golden["predictions"][case]
    return {name: attempt(getattr(labels, name), given) for name in ("task_scores", *names)}


def _relations(area: Callable[[Any, Any], float]) -> Compute:
    def compute(golden: Golden, case: str) -> Mapping[str, float]:
        gold = reference(golden, case)
        probabilities = np.array(golden["predictions"][case]["probs"])
        no_relation = golden["label_list"].index("no_relation")
        micro_f1 = labels.micro_f1(gold, probabilities, no_relation)
        return percent({"micro_f1": micro_f1, "auprc": area(gold, probabilities)})

    return compute


def _parsing(golden: Golden, case: str) -> Mapping[str, float]:
    gold, predicted = (
        structured.Arcs(
            *(np.concatenate([*side[key], ()]).astype(int) for key in ("heads", "types"))
        )
        for side in (reference(golden, case), golden["predictions"][case])
    )
    names = ("uas_macro_f1", "uas_micro_f1", "las_macro_f1", "las_micro_f1")
    return percent({name: getattr(structured, name)(gold, predicted) for name in names})


def _dialogue(golden: Golden, case: str) -> Mapping[str, float]:
    sides = reference(golden, case), golden["predictions"][case]["pred"]
    names = ("joint_goal_acc", "slot_micro_f1")
    return percent({name: getattr(structured, name)(*sides) for name in names})


def questions(golden: Golden) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Id, context and row of every question of a SQuAD file."""
    return [
        (str(qa["guid"] if "guid" in qa else qa["id"]), paragraph["context"], qa)
        for article in golden["references"]["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def gold_answers(golden: Golden) -> dict[str, list[str]]:
    """The texts of the gold answers by question."""
    return {key: [answer["text"] for answer in qa["answers"]] for key, _, qa in questions(golden)}


def _squad_v1(golden: Golden, case: str) -> dict[str, float]:
    return percent(reading.squad_v1(gold_answers(golden), golden["predictions"][case]))


def _squad_v2(golden: Golden, case: str) -> dict[str, float]:
    given = golden["predictions"][case]
    names = ("pred", "na_probs", "na_prob_thresh")
    return percent(reading.squad_v2(gold_answers(golden), *(given[name] for name in names)))


def _korquad(golden: Golden, case: str) -> dict[str, float]:
    values = percent(reading.korquad(gold_answers(golden), golden["predictions"][case]))
    return {f"official_{name}": value for name, value in values.items()}


def _klue_mrc(golden: Golden, case: str) -> dict[str, float]:
    types = {key: qa["question_type"] for key, _, qa in questions(golden)}
    return percent(reading.klue_mrc(gold_answers(golden), golden["predictions"][case], types))


def _klue_mrc_of_predicted(golden: Golden, case: str) -> dict[str, float]:
    """KLUE's second scorer, `evaluate_for_klue_mrc`, which leaves out what has no prediction."""
    predictions = golden["predictions"][case]
    gold = {key: texts for key, texts in gold_answers(golden).items() if key in predictions}
    values = reading.klue_mrc(gold, predictions)
    return {"exact_match": values["exact_match"], "rouge": values["rouge_w"]}


def _klue_mrc_file(golden: Golden) -> Iterator[Comparison]:
    yield from of_cases(_klue_mrc, _klue_mrc_of_predicted)(golden)
    for number, pair in enumerate(golden.get("single_pairs", ())):
        texts = (pair["pred"], pair["gold"])
        computed: dict[str, Any] = {
            "pred_normalised": reading.normalize_klue(texts[0]),
            "gold_normalised": reading.normalize_klue(texts[1]),
            "em": reading.exact_match(*texts, reading.normalize_klue),
            "rouge_w": reading.rouge_w(*texts),
        }
        for name, value in computed.items():
            yield Comparison(f"single pair {number}", name, pair[name], value)


def _statistics(golden: Golden, case: str) -> Mapping[str, Any]:
    """Intervals and tests; what a case is of stands before the slash of its name."""
    compute = _STATISTICS.get(case.partition("/")[0])
    return compute(golden["predictions"][case], golden["expected"][case]) if compute else {}


def _trials(values: Any, expected: Any) -> Mapping[str, float]:
    """EuroEval src/euroeval/scores.py: 1.96 standard errors over trials."""
    trials = [float(value) for value in values]
    half_width = 1.96 * float(stats.sem(trials)) if len(trials) > 1 else math.nan
    return {"mean": float(np.mean(trials)) if trials else math.nan, "ci95_half_width": half_width}


def _items(items: Any, expected: Any) -> Mapping[str, float]:
    """lm-evaluation-harness lm_eval/api/metrics.py, which has no value for one item either."""
    if len(items) < 2:
        raise ValueError(f"a standard error needs two items or more, not {len(items)}")
    return {"mean_stderr": float(stats.sem(items))}


def _pooled(sets: Any, expected: Any) -> Mapping[str, float]:
    """lm-evaluation-harness `stderr` of task groups, as if every set had the same mean."""
    total, pairs = sum(sets["sizes"]), zip(sets["stderrs"], sets["sizes"], strict=True)
    variance = sum((n - 1) * n * stderr**2 for stderr, n in pairs) / (total - len(sets["sizes"]))
    return {"pooled_sample_stderr": math.sqrt(variance / total)}


def _bootstrap(pairs: Any, expected: Mapping[str, Any]) -> Mapping[str, float]:
    """lm-evaluation-harness: chunks of 1000 resamples, chunk i by `random.Random(i).choices`."""
    num_resamples = expected.get("iters", _NUM_RESAMPLES)
    if not isinstance(num_resamples, int) or not 0 < num_resamples <= _MAX_RESAMPLES:
        raise ValueError(f"iters is {num_resamples!r}, not 1 to {_MAX_RESAMPLES:,}")
    chunk, size = min(_RESAMPLES_A_CHUNK, num_resamples), len(pairs)
    counts = [
        np.bincount(draws.choices(range(size), k=size), minlength=size)
        for draws in (random.Random(number) for number in range(num_resamples // chunk))
        for _ in range(chunk)
    ]
    cells = np.array([[(a, b) == cell for cell in np.ndindex(2, 2)] for a, b in pairs])
    tn, fp, fn, tp = (np.array(counts) @ cells).astype(np.float64).T  # by resample
    margins = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    scores = {
        "f1_stderr": 2 * tp / np.maximum(1, 2 * tp + fp + fn),
        "mcc_stderr": (tp * tn - fp * fn) / np.where(margins > 0, margins, 1),
    }
    stderrs = {name: float(np.std(values, ddof=1)) for name, values in scores.items()}
    return {"iters": num_resamples, **stderrs}


def _mcnemar(systems: Any, expected: Any) -> Mapping[str, float]:
    """huggingface/evaluate comparisons/mcnemar: chi-squared without continuity correction."""
    gold, *sides = (np.array(systems[n]) for n in ("references", "predictions1", "predictions2"))
    is_first, is_second = (side == gold for side in sides)
    only_first, only_second = np.sum(is_first & ~is_second), np.sum(is_second & ~is_first)
    if not only_first + only_second:
        raise ValueError("both systems are right on the same items: 0 / 0")
    statistic = float((only_first - only_second) ** 2 / (only_first + only_second))
    return {"stat": statistic, "p": float(stats.chi2.sf(statistic, 1))}


def _wilcoxon(systems: Any, expected: Any) -> Mapping[str, float]:
    """huggingface/evaluate comparisons/wilcoxon: scipy's default; equal scores as scipy >= 1.17."""
    sides = systems["predictions1"], systems["predictions2"]
    if sides[0] == sides[1]:
        return {"stat": 0.0, "p": 1.0}
    result = stats.wilcoxon(*sides)
    return {"stat": float(result.statistic), "p": float(result.pvalue)}


_STATISTICS: Mapping[str, Callable[[Any, Any], Mapping[str, Any]]] = {
    "trials": _trials,
    "items": _items,
    "bootstrap": _bootstrap,
    "pooled": _pooled,
    "mcnemar": _mcnemar,
    "wilcoxon": _wilcoxon,
}
_OF_GLUE = of_rows(
    {"accuracy": times_100(_accuracy_of_glue), "mcc": times_100(labels.mcc)},
    {
        "matthews_correlation": labels.mcc,
        "accuracy": labels.accuracy,
        "f1": labels.f1,
        "mean_of_both_x100": times_100(labels.mean_of_accuracy_and_f1),
    },
)
_OF_KLUE = of_rows({"accuracy": times_100(labels.accuracy), "macro_f1": times_100(labels.macro_f1)})
_GLUE = ("cola", "sst2", "qnli", "rte", "wnli", "mnli_matched", "mnli_mismatched", "mrpc", "qqp")
ADAPTERS: Mapping[str, Adapter] = {
    **{f"glue/{name}": _OF_GLUE for name in _GLUE},
    "klue/ynat": _OF_KLUE,
    "klue/nli": _OF_KLUE,
    "glue/stsb": of_rows(
        {"pearson": times_100(labels.pearson), "spearman": times_100(labels.spearman), "mse": _mse},
        {"pearson": labels.pearson, "spearmanr": labels.spearman},
    ),
    "glue/ax": of_cases(_diagnostics),
    "glue/overall": of_cases(_overall),
    "klue/sts": of_rows(
        {
            "pearsonr": times_100(labels.pearson),
            "f1": times_100(labels.f1_at_3),
            "f1_float32": times_100(labels.f1_at_3_float32),
        }
    ),
    "klue/ner": _tags,
    "klue/re": of_cases(_relations(labels.auprc), _relations(labels.auprc_absent_as_half)),
    "klue/dp": of_cases(_parsing),
    "klue/wos": of_cases(_dialogue),
    "squad_v1.1": of_cases(_squad_v1),
    "squad_v2.0": of_cases(_squad_v2),
    "korquad_v1.0": of_cases(_korquad),
    "klue/mrc": _klue_mrc_file,
    "confidence intervals and significance": of_cases(_statistics),
}
