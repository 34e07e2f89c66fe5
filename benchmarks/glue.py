"""GLUE tasks (Wang et al. 2019) from the official TSV files, as the ELECTRA paper reports them.

Columns, label order and epochs: google-research/electra finetune/classification/
classification_tasks.py and configure_finetuning.py. The files are read without quoting.
"""

from benchmarks.metrics.classification import accuracy, f1, mcc, mean_of_accuracy_and_f1
from benchmarks.task import Task


def _files(folder: str) -> dict[str, tuple[str, ...]]:
    return {split: (f"{folder}/{split}.tsv",) for split in ("train", "dev")}


COLA = Task(
    name="glue-cola",
    suite="glue",
    version="1.0",
    files=_files("CoLA"),
    file_format="tsv",
    columns=("source", "label", "author's mark", "sentence"),
    has_header=False,
    text_fields=("sentence",),
    label_field="label",
    labels=("0", "1"),
    metrics=(mcc, accuracy),
    num_epochs=3,
)

SST2 = Task(
    name="glue-sst2",
    suite="glue",
    version="1.0",
    files=_files("SST-2"),
    file_format="tsv",
    columns=("sentence", "label"),
    text_fields=("sentence",),
    label_field="label",
    labels=("0", "1"),
    metrics=(accuracy,),
    num_epochs=3,
)

MRPC = Task(
    name="glue-mrpc",
    suite="glue",
    version="1.0",
    files=_files("MRPC"),
    file_format="tsv",
    columns=("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
    text_fields=("#1 String", "#2 String"),
    label_field="Quality",
    labels=("0", "1"),
    metrics=(accuracy, f1, mean_of_accuracy_and_f1),  # the paper reports accuracy alone
    num_epochs=3,
    train_both_orders=True,  # `double_unordered`
)

RTE = Task(
    name="glue-rte",
    suite="glue",
    version="1.0",
    files=_files("RTE"),
    file_format="tsv",
    columns=("index", "sentence1", "sentence2", "label"),
    text_fields=("sentence1", "sentence2"),
    label_field="label",
    labels=("entailment", "not_entailment"),
    metrics=(accuracy,),
    num_epochs=10,
)

TASKS = (COLA, SST2, MRPC, RTE)
