"""KLUE tasks of labels and numbers (Park et al. 2021), as KLUE-baseline scores and trains them.

Its checkpoint is the best of several on the dev set, which is the set it then reports. Numbers of
rows are those of version 1.1.
"""

from benchmarks.metrics.classification import accuracy, macro_f1
from benchmarks.metrics.regression import f1_at_3, f1_at_3_float32, pearson, spearman
from benchmarks.metrics.tagging import NER_LABELS, character_macro_f1, entity_macro_f1
from benchmarks.tasks.kinds.classification import Classification
from benchmarks.tasks.kinds.regression import Regression
from benchmarks.tasks.kinds.tagging import CharacterTagging
from benchmarks.tasks.task import HubSource, Task

HOMEPAGE = "https://github.com/KLUE-benchmark/KLUE"
_HUB_SPLITS = {"train": "train", "dev": "validation"}

YNAT = Task(
    name="klue-ynat",
    suite="klue",
    kind=Classification(),
    version="1.1",
    files={
        "train": ("ynat-v1.1_train.json", "ynat-v1.1_train_part.json"),
        "dev": ("ynat-v1.1_dev.json",),
        "test": ("ynat-v1.1_test.json",),
    },
    num_rows={"train": 45_678, "dev": 9_107},
    homepage=HOMEPAGE,
    hub=HubSource(path="klue/klue", name="ynat", splits=_HUB_SPLITS),
    text_fields=("title",),
    id_field="guid",
    labels=("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠"),
    headline="macro_f1",
    metrics=(macro_f1, accuracy),
)

STS = Task(
    name="klue-sts",
    suite="klue",
    kind=Regression(),
    version="1.1",
    files={
        "train": ("klue-sts-v1.1_train.json",),
        "dev": ("klue-sts-v1.1_dev.json",),
        "test": ("klue-sts-v1.1_test.json",),
    },
    num_rows={"train": 11_668, "dev": 519},
    homepage=HOMEPAGE,
    hub=HubSource(path="klue/klue", name="sts", splits=_HUB_SPLITS),
    text_fields=("sentence1", "sentence2"),
    label_field="labels.real-label",
    id_field="guid",
    value_range=(0.0, 5.0),
    headline="pearson",
    metrics=(pearson, f1_at_3_float32, f1_at_3, spearman),  # the trainer passes float32
)

NLI = Task(
    name="klue-nli",
    suite="klue",
    kind=Classification(),
    version="1.1",
    files={
        "train": ("klue-nli-v1.1_train.json",),
        "dev": ("klue-nli-v1.1_dev.json",),
        "test": ("klue-nli-v1.1_test.json",),
    },
    num_rows={"train": 24_998, "dev": 3_000},
    homepage=HOMEPAGE,
    hub=HubSource(path="klue/klue", name="nli", splits=_HUB_SPLITS, fields={"gold_label": "label"}),
    text_fields=("premise", "hypothesis"),
    label_field="gold_label",
    id_field="guid",
    labels=("entailment", "contradiction", "neutral"),  # not the order of MNLI
    headline="accuracy",
    metrics=(accuracy,),
)

NER = Task(
    name="klue-ner",
    suite="klue",
    kind=CharacterTagging(),
    version="1.1",
    files={
        "train": ("klue-ner-v1.1_train.tsv",),
        "dev": ("klue-ner-v1.1_dev.tsv",),
    },
    num_rows={"train": 21_008, "dev": 5_000},
    homepage=HOMEPAGE,
    hub=HubSource(path="klue/klue", name="ner", splits=_HUB_SPLITS),
    label_field="ner_tags",  # of the hub
    labels=NER_LABELS,
    # The paper and its table have both, entities first. KLUE-baseline picks checkpoints by the
    # other, which in its code counts O and gives 1 for a label that is nowhere.
    headline="entity_macro_f1",
    metrics=(entity_macro_f1, character_macro_f1),
)

TASKS = (YNAT, STS, NLI, NER)
