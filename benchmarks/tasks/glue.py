"""GLUE tasks (Wang et al. 2019) from the official TSV files, as the ELECTRA paper reports them.

Label order: google-research/electra finetune/classification/classification_tasks.py. The files are
read without quoting. Beside the paper's metric (accuracy, MCC, Spearman) stands the leaderboard's.
Test files have no labels; AX, the diagnostic set, is predicted by the model of MNLI.
"""

from collections.abc import Mapping
from typing import Any

from benchmarks.metrics.classification import accuracy, f1, mcc, mean_of_accuracy_and_f1
from benchmarks.metrics.regression import mean_of_pearson_and_spearman, pearson, spearman
from benchmarks.tasks.kinds.classification import Classification, Regression
from benchmarks.tasks.task import HubSource

_HOMEPAGE = "https://gluebenchmark.com/tasks"
_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_SPLITS = {"train": "train", "dev": "validation", "test": "test"}


def _glue(
    folder: str,
    num_rows: tuple[int, int, int],
    version: str = "1.0",
    fields: Mapping[str, str] | None = None,
    hub_labels: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """What a record has in common with the others; `fields` and labels as the hub names them."""
    name = folder.lower().replace("-", "")
    return {
        "name": f"glue-{name}",
        "suite": "glue",
        "version": version,
        "files": {split: (f"{folder}/{split}.tsv",) for split in _SPLITS},
        "num_rows": dict(zip(_SPLITS, num_rows, strict=True)),
        "homepage": _HOMEPAGE,
        "hub": HubSource(
            path="nyu-mll/glue",
            name=name,
            splits=_SPLITS,
            fields=fields or {},
            labels=hub_labels or {},
        ),
    }


COLA = Classification(
    **_glue("CoLA", (8_551, 1_043, 1_063), hub_labels={"unacceptable": "0", "acceptable": "1"}),
    columns=("source", "label", "author's mark", "sentence"),
    text_fields=("sentence",),
    labels=_BINARY,
    metrics=(mcc, accuracy),
)

SST2 = Classification(
    **_glue("SST-2", (67_349, 872, 1_821), hub_labels={"negative": "0", "positive": "1"}),
    text_fields=("sentence",),
    labels=_BINARY,
    metrics=(accuracy,),
)

MRPC = Classification(
    **_glue(
        "MRPC",
        (3_668, 408, 1_725),
        fields={"#1 String": "sentence1", "#2 String": "sentence2", "Quality": "label"},
        hub_labels={"not_equivalent": "0", "equivalent": "1"},
    ),
    other_texts={"test": ("msr_paraphrase_test.txt",)},
    text_fields=("#1 String", "#2 String"),
    label_field="Quality",
    labels=_BINARY,
    metrics=(accuracy, f1, mean_of_accuracy_and_f1),  # the paper reports accuracy alone
    train_both_orders=True,  # `double_unordered`
)

STSB = Regression(
    **_glue("STS-B", (5_749, 1_500, 1_379), fields={"score": "label"}),
    text_fields=("sentence1", "sentence2"),
    label_field="score",
    value_range=(0.0, 5.0),
    metrics=(spearman, pearson, mean_of_pearson_and_spearman),
    train_both_orders=True,
)

QQP = Classification(
    **_glue(
        "QQP",
        (363_846, 40_430, 390_965),  # of train some count 363,849 in the file; the hub has these
        fields={"is_duplicate": "label"},
        hub_labels={"not_duplicate": "0", "duplicate": "1"},
    ),
    text_fields=("question1", "question2"),
    label_field="is_duplicate",
    labels=_BINARY,
    metrics=(accuracy, f1, mean_of_accuracy_and_f1),
    skip_malformed=True,  # a few rows of the official files lack columns
)

MNLI = Classification(
    name="glue-mnli",
    suite="glue",
    version="1.0",
    files={
        "train": ("MNLI/train.tsv",),
        "dev": ("MNLI/dev_matched.tsv",),
        "dev_mismatched": ("MNLI/dev_mismatched.tsv",),
        "test": ("MNLI/test_matched.tsv",),
        "test_mismatched": ("MNLI/test_mismatched.tsv",),
        "ax": ("diagnostic.tsv", "AX.tsv"),
    },
    num_rows={
        "train": 392_702,
        "dev": 9_815,
        "dev_mismatched": 9_832,
        "test": 9_796,
        "test_mismatched": 9_847,
        "ax": 1_104,
    },
    also_reported=("dev_mismatched",),
    unlabelled=("test", "test_mismatched", "ax"),
    hub=HubSource(
        path="nyu-mll/glue",
        name="mnli",
        splits={
            "train": "train",
            "dev": "validation_matched",
            "dev_mismatched": "validation_mismatched",
            "test": "test_matched",
            "test_mismatched": "test_mismatched",
        },
        elsewhere={"ax": ("nyu-mll/glue", "ax", "test")},
        fields={"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label"},
    ),
    homepage=_HOMEPAGE,
    text_fields=("sentence1", "sentence2"),
    label_field="gold_label",
    labels=("contradiction", "entailment", "neutral"),  # not the order of the hub
    metrics=(accuracy,),
)

QNLI = Classification(
    **_glue("QNLI", (104_743, 5_463, 5_463), version="2.0"),
    parts={"train": ("QNLI/train_part_a.tsv", "QNLI/train_part_b.tsv")},
    text_fields=("question", "sentence"),
    labels=_ENTAILMENT,
    metrics=(accuracy,),
)

RTE = Classification(
    **_glue("RTE", (2_490, 277, 3_000)),
    text_fields=("sentence1", "sentence2"),
    labels=_ENTAILMENT,
    metrics=(accuracy,),
)

WNLI = Classification(
    **_glue("WNLI", (635, 71, 146), hub_labels={"not_entailment": "0", "entailment": "1"}),
    text_fields=("sentence1", "sentence2"),
    labels=_BINARY,
    metrics=(accuracy,),
)

TASKS = (COLA, SST2, MRPC, STSB, QQP, MNLI, QNLI, RTE, WNLI)
