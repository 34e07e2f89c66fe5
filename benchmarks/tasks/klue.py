"""KLUE (Park et al. 2021), as KLUE-baseline scores and trains it.

Its checkpoint is the best of several on the dev set, which is the set it then reports. Numbers of
rows are those of version 1.1; those of the Wizard of Seoul are dialogues. Labels stand in the order
of KLUE-baseline, long lists of them in `klue.toml`. The headline is the metric by which its
run_all.sh picks the checkpoint of models of base size.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.metrics.classification import accuracy, macro_f1
from benchmarks.metrics.regression import f1_at_3, f1_at_3_float32, pearson, spearman
from benchmarks.metrics.tagging import NER_LABELS, character_macro_f1, entity_macro_f1
from benchmarks.tasks.kinds.classification import Classification, Regression
from benchmarks.tasks.kinds.dialogue import DialogueStateTracking
from benchmarks.tasks.kinds.parsing import DependencyParsing
from benchmarks.tasks.kinds.relations import RelationExtraction
from benchmarks.tasks.kinds.spans import Spans
from benchmarks.tasks.kinds.tagging import CharacterTagging
from benchmarks.tasks.task import HubSource
from electrify.storage.files import read_toml

_LABELS: Mapping[str, tuple[str, ...]] = {
    name: tuple(labels) for name, labels in read_toml(Path(__file__).with_suffix(".toml")).items()
}


def _klue(
    task: str, file: str, num_train: int, num_dev: int, fields: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """What a record has in common with the others; `{}` in `file` stands for the split."""
    splits = {"train": "train", "dev": "validation"}
    return {
        "name": f"klue-{task}",
        "suite": "klue",
        "version": "1.1",
        "files": {split: (file.format(split),) for split in ("train", "dev", "test")},
        "num_rows": {"train": num_train, "dev": num_dev},
        "homepage": "https://github.com/KLUE-benchmark/KLUE",
        # the hub's rows were made from the archives of version 1.0; 1.1 changed DP, NER and MRC
        "hub": HubSource(
            path="klue/klue",
            name=task,
            version="1.0",
            splits=splits,
            fields=fields or {},
            has_ids=task not in ("ner", "dp"),
        ),
    }


YNAT = Classification(
    **_klue("ynat", "ynat-v1.1_{}.json", 45_678, 9_107),
    parts={"train": ("ynat-v1.1_train_part.json",)},
    text_fields=("title",),
    labels=("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠"),
    metrics=(macro_f1, accuracy),
)

STS = Regression(
    **_klue("sts", "klue-sts-v1.1_{}.json", 11_668, 519),
    text_fields=("sentence1", "sentence2"),
    label_field="labels.real-label",
    value_range=(0.0, 5.0),
    metrics=(pearson, f1_at_3_float32, f1_at_3, spearman),  # the trainer passes float32
)

NLI = Classification(
    **_klue("nli", "klue-nli-v1.1_{}.json", 24_998, 3_000, {"gold_label": "label"}),
    text_fields=("premise", "hypothesis"),
    label_field="gold_label",
    labels=("entailment", "contradiction", "neutral"),  # not the order of MNLI
    metrics=(accuracy,),
)

NER = CharacterTagging(
    **_klue("ner", "klue-ner-v1.1_{}.tsv", 21_008, 5_000),
    label_field="ner_tags",
    labels=NER_LABELS,
    # The paper and its table have both, entities first. KLUE-baseline picks checkpoints by the
    # other, which in its code counts O and gives 1 for a label that is nowhere.
    metrics=(entity_macro_f1, character_macro_f1),
)

RE = RelationExtraction(
    **_klue("re", "klue-re-v1.1_{}.json", 32_470, 7_765),
    text_fields=("sentence",),
    labels=_LABELS["re"],
)

DP = DependencyParsing(
    **_klue("dp", "klue-dp-v1.1_{}.tsv", 10_000, 2_000),
    labels=_LABELS["dp"],
    pos_tags=_LABELS["dp-pos"],
)

# A parser that finds everything out by itself: KLUE's reads the part of speech of each word from
# the file, which no one has for new text.
DP_WITHOUT_POS = replace(DP, name="klue-dp-without-pos", variant_of=DP.name, use_pos=False)

WOS = DialogueStateTracking(
    **_klue("wos", "wos-v1.1_{}.json", 8_000, 1_000),
    labels=_LABELS["wos"],
)

MRC = Spans(
    **_klue("mrc", "klue-mrc-v1.1_{}.json", 17_554, 5_841),
    scorer="klue-mrc",
    head="span",
)

TASKS = (YNAT, STS, NLI, NER, RE, DP, DP_WITHOUT_POS, WOS, MRC)
