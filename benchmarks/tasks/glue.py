"""GLUE tasks (Wang et al. 2019) from the official TSV files, as the ELECTRA paper reports them.

Label order: google-research/electra finetune/classification/classification_tasks.py. The files are
read without quoting. Beside the paper's metric (accuracy, MCC, Spearman) stands the leaderboard's.
Test files have no labels; AX, the diagnostic set, is predicted by the model of MNLI.
"""

from collections.abc import Mapping

from benchmarks.metrics.classification import accuracy, f1, mcc, mean_of_accuracy_and_f1
from benchmarks.metrics.regression import mean_of_pearson_and_spearman, pearson, spearman
from benchmarks.tasks.kinds.classification import Classification
from benchmarks.tasks.kinds.regression import Regression
from benchmarks.tasks.task import HubSource, Task

HOMEPAGE = "https://gluebenchmark.com/tasks"
_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")


def _files(folder: str) -> dict[str, tuple[str, ...]]:
    return {split: (f"{folder}/{split}.tsv",) for split in ("train", "dev", "test")}


def _hub(
    name: str, fields: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> HubSource:
    return HubSource(
        path="nyu-mll/glue",
        name=name,
        splits={"train": "train", "dev": "validation", "test": "test"},
        fields=fields or {},
        labels=labels or {},
    )


COLA = Task(
    name="glue-cola",
    suite="glue",
    kind=Classification(),
    version="1.0",
    files=_files("CoLA"),
    num_rows={"train": 8_551, "dev": 1_043, "test": 1_063},
    homepage=HOMEPAGE,
    hub=_hub("cola", labels={"unacceptable": "0", "acceptable": "1"}),
    columns=("source", "label", "author's mark", "sentence"),
    text_fields=("sentence",),
    labels=_BINARY,
    headline="mcc",
    metrics=(mcc, accuracy),
)

SST2 = Task(
    name="glue-sst2",
    suite="glue",
    kind=Classification(),
    version="1.0",
    files=_files("SST-2"),
    num_rows={"train": 67_349, "dev": 872, "test": 1_821},
    homepage=HOMEPAGE,
    hub=_hub("sst2", labels={"negative": "0", "positive": "1"}),
    text_fields=("sentence",),
    labels=_BINARY,
    headline="accuracy",
    metrics=(accuracy,),
)

MRPC = Task(
    name="glue-mrpc",
    suite="glue",
    kind=Classification(),
    version="1.0",
    files=_files("MRPC"),
    num_rows={"train": 3_668, "dev": 408, "test": 1_725},
    homepage=HOMEPAGE,
    hub=_hub(
        "mrpc",
        {"#1 String": "sentence1", "#2 String": "sentence2", "Quality": "label"},
        {"not_equivalent": "0", "equivalent": "1"},
    ),
    text_fields=("#1 String", "#2 String"),
    label_field="Quality",
    labels=_BINARY,
    headline="accuracy",
    metrics=(accuracy, f1, mean_of_accuracy_and_f1),  # the paper reports accuracy alone
    train_both_orders=True,  # `double_unordered`
)

STSB = Task(
    name="glue-stsb",
    suite="glue",
    kind=Regression(),
    version="1.0",
    files=_files("STS-B"),
    num_rows={"train": 5_749, "dev": 1_500, "test": 1_379},
    homepage=HOMEPAGE,
    hub=_hub("stsb", {"score": "label"}),
    text_fields=("sentence1", "sentence2"),
    label_field="score",
    value_range=(0.0, 5.0),
    headline="spearman",
    metrics=(spearman, pearson, mean_of_pearson_and_spearman),
    train_both_orders=True,
)

QQP = Task(
    name="glue-qqp",
    suite="glue",
    kind=Classification(),
    version="1.0",
    files=_files("QQP"),
    # of train some count 363,849 in the file; the hub has these
    num_rows={"train": 363_846, "dev": 40_430, "test": 390_965},
    homepage=HOMEPAGE,
    hub=_hub("qqp", {"is_duplicate": "label"}, {"not_duplicate": "0", "duplicate": "1"}),
    text_fields=("question1", "question2"),
    label_field="is_duplicate",
    labels=_BINARY,
    headline="accuracy",
    metrics=(accuracy, f1, mean_of_accuracy_and_f1),
    skip_malformed=True,  # a few rows of the official files lack columns
)

MNLI = Task(
    name="glue-mnli",
    suite="glue",
    kind=Classification(),
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
    homepage=HOMEPAGE,
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
        elsewhere={"ax": ("ax", "test")},
        fields={"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label"},
    ),
    text_fields=("sentence1", "sentence2"),
    label_field="gold_label",
    labels=("contradiction", "entailment", "neutral"),  # not the order of the hub
    headline="accuracy",
    metrics=(accuracy,),
)

QNLI = Task(
    name="glue-qnli",
    suite="glue",
    kind=Classification(),
    version="2.0",
    files=_files("QNLI"),
    num_rows={"train": 104_743, "dev": 5_463, "test": 5_463},
    parts={"train": ("QNLI/train_part_a.tsv", "QNLI/train_part_b.tsv")},
    homepage=HOMEPAGE,
    hub=_hub("qnli"),
    text_fields=("question", "sentence"),
    labels=_ENTAILMENT,
    headline="accuracy",
    metrics=(accuracy,),
)

RTE = Task(
    name="glue-rte",
    suite="glue",
    kind=Classification(),
    version="1.0",
    files=_files("RTE"),
    num_rows={"train": 2_490, "dev": 277, "test": 3_000},
    homepage=HOMEPAGE,
    hub=_hub("rte"),
    text_fields=("sentence1", "sentence2"),
    labels=_ENTAILMENT,
    headline="accuracy",
    metrics=(accuracy,),
)

WNLI = Task(
    name="glue-wnli",
    suite="glue",
    kind=Classification(),
    version="1.0",
    files=_files("WNLI"),
    num_rows={"train": 635, "dev": 71, "test": 146},
    homepage=HOMEPAGE,
    hub=_hub("wnli", labels={"not_entailment": "0", "entailment": "1"}),
    text_fields=("sentence1", "sentence2"),
    labels=_BINARY,
    headline="accuracy",
    metrics=(accuracy,),
)

TASKS = (COLA, SST2, MRPC, STSB, QQP, MNLI, QNLI, RTE, WNLI)
