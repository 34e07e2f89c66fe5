"""Writes the golden vectors of this folder: inputs made up here, expected values not by our code.

Run from the repository root after a change: `python -m tests.golden.make`. Expected values are
worked out by hand (the sum stands beside them) or come from scikit-learn, scipy and difflib. The
form is that of the files that `electrify evaluate --check-metrics` reads.
"""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics

from tests.golden import make_reading

FOLDER = Path(__file__).parent
LICENCE = "Made up for this repository, under its licence."
ERROR = {"error": "ValueError"}
NER_LABELS = [
    "B-PS",
    "I-PS",
    "B-LC",
    "I-LC",
    "B-OG",
    "I-OG",
    "B-DT",
    "I-DT",
    "B-TI",
    "I-TI",
    "B-QT",
    "I-QT",
    "O",
]
O = 12  # noqa: E741


def vectors() -> dict[str, dict[str, Any]]:
    """Every file by its name."""
    return {
        "glue_cola.json": cola(),
        "glue_accuracy.json": accuracy(),
        "glue_acc_f1.json": accuracy_f1(),
        "glue_stsb.json": stsb(),
        "glue_ax.json": diagnostics(),
        "glue_average.json": overall(),
        "klue_ynat.json": ynat(),
        "klue_nli.json": nli(),
        "klue_sts.json": sts(),
        "klue_ner.json": ner(),
        "klue_ner_alignment.json": ner_alignment(),
        "statistics.json": statistics(),
    } | {
        f"{name}.json": golden(**vector(), metric_source="by hand", note="See make_reading.py.")
        for name, vector in {
            "squad_v1": make_reading.squad_v1,
            "squad_v2": make_reading.squad_v2,
            "korquad_v1": make_reading.korquad,
            "klue_mrc": make_reading.klue_mrc,
            "klue_re": make_reading.klue_re,
            "klue_dp": make_reading.klue_dp,
            "klue_wos": make_reading.klue_wos,
        }.items()
    }


def golden(task: str, metric_source: str, note: str, **blocks: Any) -> dict[str, Any]:
    blocks.setdefault("references", {})
    head = {"task": task, "metric_source": metric_source}
    return head | blocks | {"note": note, "licence": LICENCE}


def cases(**rows: tuple[str, list[Any]]) -> dict[str, Any]:
    return {name: {"ref": ref, "pred": predicted} for name, (ref, predicted) in rows.items()}


def cola() -> dict[str, Any]:
    references = {"ten": [1, 1, 1, 1, 1, 1, 0, 0, 0, 0], "all_good": [1, 1, 1], "none": []}
    predictions = cases(
        two_of_six_missed=("ten", [1, 1, 1, 1, 0, 0, 0, 0, 0, 1]),
        inverse=("ten", [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]),
        constant=("ten", [1] * 10),
        one_class_gold=("all_good", [1, 0, 1]),
        a_row_is_missing=("ten", [1] * 9),
    )
    # tp 4, fn 2, tn 3, fp 1
    first = (4 * 3 - 1 * 2) / math.sqrt((4 + 1) * (4 + 2) * (3 + 1) * (3 + 2))
    values = {"two_of_six_missed": first, "inverse": -1.0, "constant": 0.0, "one_class_gold": 0.0}
    return golden(
        "glue/cola",
        "the formula of Matthews",
        "mcc times 100; 0..1 in expected_other.",
        references=references,
        predictions=predictions,
        expected={name: {"mcc": 100 * value} for name, value in values.items()}
        | {"a_row_is_missing": {"mcc": ERROR}},
        expected_other={
            "scikit-learn (0..1)": {
                "two_of_six_missed": {
                    "matthews_correlation": metrics.matthews_corrcoef(
                        references["ten"], predictions["two_of_six_missed"]["pred"]
                    )
                }
            }
        },
    )


def accuracy() -> dict[str, Any]:
    return golden(
        "glue/rte,mnli_matched,sst2",
        "counted",
        "Times 100.",
        references={"none": [], "rte": [0, 1, 1, 0], "mnli": [0, 1, 2, 2, 1, 0, 0, 1]},
        predictions=cases(
            half=("rte", [0, 0, 1, 1]),
            no_rows=("none", []),
            other_label_order=("mnli", [2, 0, 1, 1, 0, 2, 2, 0]),
            six_of_eight=("mnli", [0, 1, 2, 2, 1, 0, 1, 0]),
        ),
        expected={
            "half": {"accuracy": 50.0},
            "no_rows": {"accuracy": ERROR},  # 0 / 0 stops the official code
            "other_label_order": {"accuracy": 0.0},
            "six_of_eight": {"accuracy": 75.0},
        },
    )


def accuracy_f1() -> dict[str, Any]:
    return golden(
        "glue/mrpc,qqp",
        "counted",
        "accuracy times 100; expected_other: GLUE's own, 0..1.",
        references={"six": [1, 1, 1, 0, 0, 0], "no_positive": [0, 0, 0, 0]},
        predictions=cases(
            two_each=("six", [1, 1, 0, 1, 1, 0]),  # tp 2, fp 2, fn 1: F1 = 4 / 7
            none_predicted=("six", [0] * 6),
            nothing_to_find=("no_positive", [0, 0, 0, 0]),
        ),
        expected={
            "two_each": {"accuracy": 50.0},
            "none_predicted": {"accuracy": 50.0},
            "nothing_to_find": {"accuracy": 100.0},
        },
        expected_other={
            "counted (0..1; the last is the mean of both times 100)": {
                "two_each": {
                    "accuracy": 0.5,
                    "f1": 4 / 7,
                    "mean_of_both_x100": 100 * (0.5 + 4 / 7) / 2,
                },
                "none_predicted": {"accuracy": 0.5, "f1": 0.0, "mean_of_both_x100": 25.0},
                "nothing_to_find": {"accuracy": 1.0, "f1": 0.0, "mean_of_both_x100": 50.0},
            }
        },
    )


def stsb() -> dict[str, Any]:
    gold = [0.0, 5.0, 2.5, 2.5, 4.0, 1.25, 3.8]
    predicted = {
        "noisy": [0.4, 4.1, 2.9, 1.7, 4.4, 0.2, 2.6],
        "ties": [0.0, 4.0, 2.0, 2.0, 4.0, 2.0, 4.0],
        "negated": [-value for value in gold],
        "outlier": [1e7, *gold[1:]],
    }
    expected: dict[str, Any] = {
        name: {
            "pearson": 100 * stats.pearsonr(gold, values).statistic,
            "spearman": 100 * stats.spearmanr(gold, values).statistic,
            "mse": metrics.mean_squared_error(gold, values),
        }
        for name, values in predicted.items()
    }
    constant = {
        "pearson": "nan",
        "spearman": "nan",
        "mse": float(np.mean((np.array(gold) - 1) ** 2)),
    }
    one = {"pearson": ERROR, "spearman": "nan", "mse": 0.25}
    return golden(
        "glue/stsb",
        "scipy, scikit-learn",
        "Correlations times 100; nan where one is undefined.",
        references={"seven": gold, "one": [3.0]},
        predictions=cases(
            **{name: ("seven", values) for name, values in predicted.items()},
            constant=("seven", [1.0] * 7),
            one_row=("one", [2.5]),
        ),
        expected=expected | {"constant": constant, "one_row": one},
        expected_other={
            "scipy (-1..1)": {
                name: {"pearson": values["pearson"] / 100, "spearmanr": values["spearman"] / 100}
                for name, values in expected.items()
            }
        },
    )


def diagnostics() -> dict[str, Any]:
    gold = [0, 1, 2, 0, 1, 2, 1, 1, 2, 0]
    predicted = [0, 1, 2, 1, 1, 0, 1, 2, 2, 0]
    tags = {"logic": [0, 2, 4, 6, 8], "knowledge": [1, 3, 5, 7, 9], "negation": [0, 3]}

    def value(rows: list[int]) -> float:
        pairs = [gold[row] for row in rows], [predicted[row] for row in rows]
        return float(100 * metrics.matthews_corrcoef(*pairs))

    whole = value(list(range(10)))
    return golden(
        "glue/ax",
        "scikit-learn",
        "R_3 times 100, over all rows and over those of a tag.",
        references={"default": gold, "tags": tags},
        predictions=cases(mixed=("default", predicted), constant=("default", [1] * 10)),
        expected={
            "mixed": {
                "mcc": whole,
                "mcc_from_confusion_matrix": whole,
                "mcc_tag_logic": value(tags["logic"]),
                "mcc_tag_knowledge": value(tags["knowledge"]),
                "mcc_tag_negation": 0.0,  # gold is of one class
            },
            "constant": {"mcc": 0.0, "mcc_tag_logic": 0.0},
        },
    )


def overall() -> dict[str, Any]:
    scores = {
        "cola": {"mcc": 50.0},
        "sst2": {"accuracy": 90.0},
        "mrpc": {"f1": 88.0, "accuracy": 84.0},
        "stsb": {"pearson": 86.0, "spearman": 84.0},
        "qqp": {"f1": 70.0, "accuracy": 90.0},
        "mnli_matched": {"accuracy": 82.0},
        "mnli_mismatched": {"accuracy": 80.0},
        "qnli": {"accuracy": 89.0},
        "rte": {"accuracy": 65.0},
        "wnli": {"accuracy": 56.0},
        "ax": {"mcc": 30.0},
    }
    by_task = {
        "cola": 50.0,
        "sst2": 90.0,
        "mrpc": 86.0,
        "stsb": 85.0,
        "qqp": 80.0,
        "mnli": 81.0,
        "qnli": 89.0,
        "rte": 65.0,
        "wnli": 56.0,
    }
    without_rte = {name: values for name, values in scores.items() if name != "rte"}
    return golden(
        "glue/overall",
        "the definition, by hand",
        "Percent. The diagnostic set does not count.",
        predictions={"a_model": scores, "without_rte": without_rte},
        expected={
            "a_model": {
                "task_scores": by_task,
                "glue_9_tasks": 682 / 9,
                "glue_8_tasks_without_wnli": 626 / 8,
                # 50 + 90 + 84 + 84 + 90 + 82 + 89 + 65
                "electra_dev_8_tasks": 634 / 8,
            },
            "without_rte": {
                "task_scores": ERROR,
                "glue_9_tasks": ERROR,
                "electra_dev_8_tasks": ERROR,
            },
        },
    )


def ynat() -> dict[str, Any]:
    gold, predicted = [0, 1, 2, 3, 4, 5, 6, 0, 1, 2], [0, 1, 3, 3, 4, 5, 6, 1, 1, 2]
    return golden(
        "klue/ynat",
        "scikit-learn and counted",
        "Macro F1 times 100 over classes that occur.",
        label_list=["정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠"],
        references={"seven": gold, "two": [2, 3, 2, 3], "one": [5, 5], "none": []},
        predictions=cases(
            mixed=("seven", predicted),
            third_predicted=("two", [2, 3, 2, 6]),  # F1 1, 2/3 and 0
            one_class=("one", [5, 5]),
            no_rows=("none", []),
        ),
        expected={
            "mixed": {"macro_f1": 100 * metrics.f1_score(gold, predicted, average="macro")},
            "third_predicted": {"macro_f1": 100 * (1 + 2 / 3) / 3},
            "one_class": {"macro_f1": 100.0},
            "no_rows": {"macro_f1": "nan"},
        },
    )


def nli() -> dict[str, Any]:
    return golden(
        "klue/nli",
        "counted",
        "Accuracy times 100.",
        label_list=["entailment", "contradiction", "neutral"],
        references={"six": [0, 1, 2, 0, 1, 2]},
        predictions=cases(all_neutral=("six", [2] * 6), order_of_mnli=("six", [1, 0, 2, 1, 0, 2])),
        expected={
            "all_neutral": {"accuracy": 100 / 3},
            "order_of_mnli": {"accuracy": 100 / 3},
        },
    )


def sts() -> dict[str, Any]:
    gold = [0.0, 3.0, 2.9, 4.2, 5.0, 1.4]
    predicted = {"noisy": [0.3, 2.8, 3.1, 3.9, 4.8, 2.0], "scaled": [value / 5 for value in gold]}
    close = [0.0, 2.9999999, 2.0, 4.0, 5.0, 2.9999999]  # of float32 the second and last are 3.0
    return golden(
        "klue/sts",
        "scipy and counted",
        "Times 100. f1: both sides cut at 3 and more.",
        references={"six": gold, "below": [0.5, 1.0, 2.5], "one": [3.5]},
        predictions=cases(
            noisy=("six", predicted["noisy"]),
            scaled=("six", predicted["scaled"]),
            close_to_three=("six", close),
            constant=("six", [3.0] * 6),
            none_above=("below", [1.0, 1.5, 2.0]),
            one_row=("one", [3.0]),
        ),
        expected={
            # gold 3.0, 4.2, 5.0; predicted 3.1, 3.9, 4.8: tp 2, fp 1, fn 1
            "noisy": {
                "pearsonr": 100 * stats.pearsonr(gold, predicted["noisy"]).statistic,
                "f1": 200 / 3,
                "f1_float32": 200 / 3,
            },
            "scaled": {"pearsonr": 100.0, "f1": 0.0, "f1_float32": 0.0},
            # tp 2, fn 1: 4 / 5; of float32 tp 3, fp 1: 6 / 7
            "close_to_three": {
                "pearsonr": 100 * stats.pearsonr(gold, close).statistic,
                "f1": 80.0,
                "f1_float32": 600 / 7,
            },
            "constant": {"pearsonr": "nan", "f1": 200 / 3, "f1_float32": 200 / 3},
            "none_above": {
                "pearsonr": 100 * stats.pearsonr([0.5, 1.0, 2.5], [1.0, 1.5, 2.0])[0],
                "f1": 0.0,
                "f1_float32": 0.0,
            },
            "one_row": {"pearsonr": ERROR, "f1": 100.0, "f1_float32": 100.0},
        },
    )


def ner() -> dict[str, Any]:
    gold = [O, 0, 1, 1, O, 2, 3, O, O, 0, 1, O]  # PS, LC, PS between the two labels of the frame
    predicted = {
        "last_is_shorter": [O, 0, 1, 1, O, 2, 3, O, O, 0, O, O],
        "inside_for_begin": [O, 1, 1, 1, O, 3, 3, O, O, 1, 1, O],
        "other_type": [O, 0, 1, 1, O, 4, 5, O, O, 0, 1, O],
        "frame_is_wrong": [0, 0, 1, 1, O, 2, 3, O, O, 0, 1, 2],
        "nothing": [O] * len(gold),
    }
    entities = {  # macro F1 over types; micro F1
        "last_is_shorter": ((1 / 2 + 1) / 2, 4 / 6),  # PS: 1 of 2 and 2; LC: 1 of 1 and 1
        "inside_for_begin": (0.0, 0.0),
        "other_type": ((1 + 0 + 0) / 3, 4 / 6),  # PS 1, LC not found, OG wrong
        "frame_is_wrong": ((4 / 5 + 2 / 3) / 2, 6 / 8),  # one PS and one LC too many
        "nothing": (0.0, 0.0),
    }
    lenient = dict(entities) | {"inside_for_begin": (1.0, 1.0)}  # all three, at the same places

    def characters(name: str, labels: range) -> float:
        scores = metrics.f1_score(
            gold, predicted[name], labels=labels, average=None, zero_division=1.0
        )
        return 100 * float(np.mean(scores))

    expected: dict[str, Any] = {
        name: {"entity_macro_f1": 100 * macro, "character_macro_f1": characters(name, range(13))}
        for name, (macro, _) in entities.items()
    }
    usual: dict[str, Any] = {
        name: {
            "seqeval_micro_default": 100 * micro,
            "seqeval_macro_default": 100 * macro,
            "seqeval_micro_strict_iob2": 100 * entities[name][1],
        }
        for name, (macro, micro) in lenient.items()
    }
    usual["no_entity_at_all"] = {
        "seqeval_micro_default": 0.0,
        "seqeval_macro_default": "nan",
        "seqeval_micro_strict_iob2": 0.0,
    }
    without_o = {
        name: {"character_macro_f1_without_O": characters(name, range(12))} for name in predicted
    }
    return golden(
        "klue/ner",
        "entities counted, characters by scikit-learn",
        "Times 100. Labels of all sentences in one chain, framed.",
        label_list=NER_LABELS,
        references={"default": gold, "all_o": [O, O, O]},
        predictions=cases(
            **{name: ("default", values) for name, values in predicted.items()},
            no_entity_at_all=("all_o", [O, O, O]),
        ),
        expected=expected
        | {"no_entity_at_all": {"entity_macro_f1": "nan", "character_macro_f1": 100.0}},
        expected_other={"counted as seqeval does": usual, "the paper's definition": without_o},
    )


def ner_alignment() -> dict[str, Any]:
    """Four short sentences, followed by hand through the official rules."""
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "서울",
        "##에서",
        "비",
        "##가",
        "온다",
        ".",
        "!",
    ]
    lc, in_lc, ps, in_ps = 2, 3, 0, 1

    def sentence(text: str, tags: list[int], length: int) -> dict[str, Any]:
        assert len(text) == len(tags)
        return {
            "chars": text,
            "tags": [NER_LABELS[tag] for tag in tags],
            "vocab": "ours",
            "max_seq_length": length,
        }

    def padded(labels: list[int], length: int, last: int = O) -> list[int]:
        return [*labels, *[O] * (length - len(labels) - 1), last]

    references = {
        # pieces 서울 ##에서 | 비 ##가 | 온다 .
        "all_known": sentence("서울에서 비가 온다.", [lc, in_lc, O, O, O, O, O, O, O, O, O], 12),
        # pieces 서울 ##에서 | [UNK] | 온다: the label of 온다 is that of the [UNK] once more
        "an_unknown_word": sentence(
            "서울에서 눈이 온다", [lc, in_lc, O, O, O, ps, in_ps, O, O, O], 10
        ),
        # pieces [UNK] . 서울 | 비: one character of 서울 is lost, and all behind moves up
        "an_unknown_before_a_long_piece": sentence("눈.서울 비", [ps, O, lc, in_lc, O, O], 10),
        # pieces 서울 ##에서 | 비 ##가 | 온다 . cut to two
        "cut_off": sentence("서울에서 비가 온다.", [lc, in_lc, O, O, O, O, O, O, O, O, O], 4),
    }
    predictions = {
        "all_known": padded([O, lc, O, O, ps, O, O], 12, last=ps),
        "an_unknown_word": padded([O, lc, in_lc, ps, O], 10),
        "an_unknown_before_a_long_piece": padded([O, ps, O, lc, in_ps, O], 10),
        "cut_off": [O, lc, O, ps],
    }
    expected: dict[str, Any] = {
        "all_known": {
            "gold_piece_label_ids": [O, lc, O, O, O, O, O, O],
            # ##가 is predicted PS; the frame ends with the last padded position, PS too
            "char_pred_ids": [O, lc, in_lc, O, O, O, ps, O, O, O, ps],
            "char_gold_ids": [O, lc, in_lc, O, O, O, O, O, O, O, O],
        },
        "an_unknown_word": {
            "gold_piece_label_ids": [O, lc, O, ps, O, O],
            # [UNK] is read for both characters of 눈이 and again for 온다
            "char_pred_ids": [O, lc, in_lc, in_lc, in_lc, ps, in_ps, ps, in_ps, O],
            "char_gold_ids": [O, lc, in_lc, O, O, ps, in_ps, O, O, O],
        },
        "an_unknown_before_a_long_piece": {
            # in a word with an [UNK] every piece has the label of its first character
            "gold_piece_label_ids": [O, ps, ps, ps, O, O],
            # [UNK] ps; . at position 2, O; 서울 at position 2 again, O, one character only; 비 at
            # position 3, LC: four labels for five characters
            "char_pred_ids": [O, ps, O, O, lc, O],
            "char_gold_ids": [O, ps, O, lc, in_lc, O],
        },
        "cut_off": {
            "gold_piece_label_ids": [O, lc, O, O],
            "char_pred_ids": [O, lc, in_lc, O, O, ps],
            "char_gold_ids": [O, lc, in_lc, O, O, O],
        },
    }
    return golden(
        "klue/ner (word pieces to characters)",
        "by hand after the official rules",
        "The frame is position 0 and the last padded position; [UNK]s shift what is behind them.",
        label_list=NER_LABELS,
        vocabs={"ours": vocabulary},
        references=references,
        predictions={name: {"piece_label_ids": labels} for name, labels in predictions.items()},
        expected=expected,
    )


def statistics() -> dict[str, Any]:
    five = [80.0, 82.0, 81.0, 83.0, 84.0]  # sd sqrt(2.5)
    pairs = [[1, 1], [0, 1], [1, 0], [0, 0], [1, 1], [1, 1], [0, 0], [0, 1], [1, 1], [0, 0]]
    resampled = _resampled(pairs, 2000)
    left, right = [61.0, 70.2, 55.1, 80.4, 77.3, 69.0], [62.5, 70.1, 57.0, 83.0, 77.9, 70.2]
    rank_test = stats.wilcoxon(left, right)
    systems = {  # b = 3 items only the first has right, c = 1 only the second
        "references": [0, 1, 1, 0, 2, 2, 1],
        "predictions1": [0, 1, 1, 0, 0, 2, 0],
        "predictions2": [0, 0, 0, 1, 2, 2, 0],
    }
    return golden(
        "confidence intervals and significance",
        "scipy, numpy and by hand",
        "trials: 1.96 standard errors; bootstrap: chunk i of 1000 by random.Random(i).choices.",
        predictions={
            "trials/five": five,
            "trials/one": [70.0],
            "trials/none": [],
            "items/three_of_four": [1, 1, 0, 1],
            "items/one": [1],
            "bootstrap/pairs": pairs,
            "pooled": {"stderrs": [0.1, 0.2], "sizes": [5, 11]},
            "mcnemar/three_to_one": systems,
            "mcnemar/same": systems | {"predictions2": systems["predictions1"]},
            "wilcoxon/six_tasks": {"predictions1": left, "predictions2": right},
            "wilcoxon/identical": {"predictions1": left, "predictions2": left},
        },
        expected={
            "trials/five": {"mean": 82.0, "ci95_half_width": 1.96 * math.sqrt(2.5 / 5)},
            "trials/one": {"mean": 70.0, "ci95_half_width": "nan"},
            "trials/none": {"mean": "nan", "ci95_half_width": "nan"},
            "items/three_of_four": {"mean_stderr": 0.25},  # sd sqrt(3/4 * 1/4 * 4/3) = 1/2
            "items/one": {"mean_stderr": ERROR},
            "bootstrap/pairs": {
                "iters": 2000,
                "f1_stderr": _sd(resampled, _f1),
                "mcc_stderr": _sd(resampled, _mcc),
            },
            # (4 * 5 * .01 + 10 * 11 * .04) / (16 - 2) / 16
            "pooled": {"pooled_sample_stderr": math.sqrt(4.6 / 14 / 16)},
            "mcnemar/three_to_one": {"stat": 1.0, "p": stats.chi2.sf(1.0, 1)},
            "mcnemar/same": ERROR,
            "wilcoxon/six_tasks": {"stat": rank_test.statistic, "p": rank_test.pvalue},
            "wilcoxon/identical": {"stat": 0.0, "p": 1.0},
        },
    )


def _resampled(pairs: list[list[int]], count: int) -> list[NDArray[np.int64]]:
    """(2, items) gold and predicted labels of every resample."""
    found = []
    for chunk in range(count // 1000):
        draws = random.Random(chunk)
        found += [np.array(draws.choices(pairs, k=len(pairs))).T for _ in range(1000)]
    return found


def _sd(resampled: list[NDArray[np.int64]], metric: Any) -> float:
    return float(np.std([metric(*sides) for sides in resampled], ddof=1))


def _f1(gold: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """Twice the true positives over the positives of both sides."""
    return float(2 * (gold & predicted).sum() / max((gold + predicted).sum(), 1))


def _mcc(gold: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """Matthews correlation is Pearson's, of two classes; 0 where one side is constant."""
    if gold.std() == 0 or predicted.std() == 0:
        return 0.0
    return float(np.corrcoef(gold, predicted)[0, 1])


def text_of(content: dict[str, Any]) -> str:
    """As a file holds it."""
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    for name, content in vectors().items():
        (FOLDER / name).write_text(text_of(content), encoding="utf-8")


if __name__ == "__main__":
    main()
