"""KLUE tasks (Park et al. 2021), as KLUE-baseline scores and trains them.

Epochs are those of KLUE-baseline run_all.sh for models of base size. Its checkpoint is the best of
several on the dev set, which is the set it then reports; here the last step is scored.
"""

from benchmarks.metrics.classification import accuracy, macro_f1
from benchmarks.metrics.tagging import NER_LABELS, character_macro_f1, entity_macro_f1
from benchmarks.task import Task

YNAT = Task(
    name="klue-ynat",
    suite="klue",
    version="1.1",
    files={
        "train": ("ynat-v1.1_train.json", "ynat-v1.1_train_part.json"),
        "dev": ("ynat-v1.1_dev.json",),
    },
    file_format="json",
    text_fields=("title",),
    label_field="label",
    id_field="guid",
    labels=("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠"),
    metrics=(macro_f1, accuracy),
    num_epochs=4,
)

NLI = Task(
    name="klue-nli",
    suite="klue",
    version="1.1",
    files={"train": ("klue-nli-v1.1_train.json",), "dev": ("klue-nli-v1.1_dev.json",)},
    file_format="json",
    text_fields=("premise", "hypothesis"),
    label_field="gold_label",
    id_field="guid",
    labels=("entailment", "contradiction", "neutral"),  # not the order of MNLI
    metrics=(accuracy,),
    num_epochs=5,
)

NER = Task(
    name="klue-ner",
    suite="klue",
    version="1.1",
    files={"train": ("klue-ner-v1.1_train.tsv",), "dev": ("klue-ner-v1.1_dev.tsv",)},
    file_format="characters",
    text_fields=("text",),
    labels=NER_LABELS,
    head="tagging",
    metrics=(entity_macro_f1, character_macro_f1),
    num_epochs=3,
)

TASKS = (YNAT, NLI, NER)
