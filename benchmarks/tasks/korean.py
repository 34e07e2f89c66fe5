"""Korean tasks that KoELECTRA is scored on (github.com/monologg/KoELECTRA, finetune), in the
formats of its folders and of the data's authors.

Labels and the reported split are those of its finetune/processor and finetune/config, which reports
the best of all checkpoints on that same split; here the last step is scored.

How many rows of PAWS-X and of the question pairs are left without the empty ones is not known here.

On the hub the hate speech and KorSTS are read from copies in Parquet. Naver's entities are not on
the hub.
"""

from collections.abc import Mapping
from typing import Any

from benchmarks.metrics.classification import accuracy, macro_f1
from benchmarks.metrics.regression import mean_of_pearson_and_spearman, pearson, spearman
from benchmarks.metrics.tagging import entity_micro_f1, seqeval_micro_f1
from benchmarks.tasks.kinds.classification import Classification, Regression
from benchmarks.tasks.kinds.spans import Spans
from benchmarks.tasks.kinds.tagging import WordTagging
from benchmarks.tasks.task import HubSource

# KoELECTRA's finetune/processor/ner.py
_ENTITY_TYPES = "PER FLD AFW ORG LOC CVL DAT TIM NUM EVT ANM PLT MAT TRM"
_SCORED_ON_TEST: Mapping[str, Any] = {"suite": "korean", "reported": "test", "unlabelled": ()}

NSMC = Classification(
    name="korean-nsmc",
    **_SCORED_ON_TEST,
    version="1.0",
    files={"train": ("ratings_train.txt",), "test": ("ratings_test.txt",)},
    num_rows={"train": 150_000, "test": 50_000},
    homepage="https://github.com/e9t/nsmc",
    hub=HubSource(
        path="e9t/nsmc",
        splits={"train": "train", "test": "test"},
        labels={"negative": "0", "positive": "1"},
    ),
    text_fields=("document",),
    id_field="id",
    labels=("0", "1"),
    metrics=(accuracy,),
)

NAVER_NER = WordTagging(
    name="korean-naver-ner",
    **_SCORED_ON_TEST,
    version="2018",
    files={"train": ("naver-ner/train.tsv",), "test": ("naver-ner/test.tsv",)},
    num_rows={"train": 81_000, "test": 9_000},
    homepage="https://github.com/naver/nlp-challenge and KoELECTRA's finetune/data",
    text_fields=("sentence",),
    labels=("O", *(f"{kind}-{mark}" for kind in _ENTITY_TYPES.split() for mark in "BI")),
    metrics=(seqeval_micro_f1, entity_micro_f1),
)

PAWS_X = Classification(
    name="korean-paws-x",
    **_SCORED_ON_TEST,
    version="1.0",
    files={
        "train": ("ko/translated_train.tsv", "paws/translated_train.tsv"),
        "dev": ("ko/dev_2k.tsv", "paws/dev_2k.tsv"),
        "test": ("ko/test_2k.tsv", "paws/test_2k.tsv"),
    },
    also_reported=("dev",),
    homepage="https://github.com/google-research-datasets/paws/tree/master/pawsx",
    hub=HubSource(
        path="google-research-datasets/paws-x",
        name="ko",
        splits={"train": "train", "dev": "validation", "test": "test"},
    ),
    text_fields=("sentence1", "sentence2"),
    labels=("0", "1"),
    skip_empty=True,
    metrics=(accuracy,),
)

KORNLI = Classification(
    name="korean-kornli",
    **_SCORED_ON_TEST,
    version="1.0",
    files={
        "train": ("multinli.train.ko.tsv",),  # without the rows of SNLI, as KoELECTRA
        "dev": ("xnli.dev.ko.tsv",),
        "test": ("xnli.test.ko.tsv",),
    },
    num_rows={"train": 392_702, "dev": 2_490, "test": 5_010},
    also_reported=("dev",),
    homepage="https://github.com/kakaobrain/KorNLUDatasets",
    hub=HubSource(
        path="kakaobrain/kor_nli",
        name="multi_nli",
        splits={"train": "train"},
        elsewhere={
            "dev": ("kakaobrain/kor_nli", "xnli", "validation"),
            "test": ("kakaobrain/kor_nli", "xnli", "test"),
        },
        fields={"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label"},
    ),
    text_fields=("sentence1", "sentence2"),
    label_field="gold_label",
    labels=("contradiction", "entailment", "neutral"),
    metrics=(accuracy,),
)

KORSTS = Regression(
    name="korean-korsts",
    **_SCORED_ON_TEST,
    version="1.0",
    files={
        "train": ("sts-train.tsv",),
        "dev": ("sts-dev.tsv",),
        "test": ("sts-test.tsv",),
    },
    num_rows={"train": 5_749, "dev": 1_500, "test": 1_379},
    also_reported=("dev",),
    homepage="https://github.com/kakaobrain/KorNLUDatasets",
    # a few rows are missing there: 5,691, 1,465 and 1,376 are left
    hub=HubSource(path="mteb/KorSTS", splits={"train": "train", "dev": "valid", "test": "test"}),
    text_fields=("sentence1", "sentence2"),
    label_field="score",
    value_range=(0.0, 5.0),
    metrics=(spearman, pearson, mean_of_pearson_and_spearman),
)

QUESTION_PAIR = Classification(
    name="korean-question-pair",
    **_SCORED_ON_TEST,
    version="1.0",
    files={
        "train": ("question-pair/train.tsv", "kor_pair_train.csv"),
        "dev": ("question-pair/dev.tsv",),
        "test": ("question-pair/test.tsv", "kor_Pair_test.csv", "kor_pair_test.csv"),
    },
    also_reported=("dev",),
    homepage="https://github.com/songys/Question_pair and KoELECTRA's finetune/data",
    hub=HubSource(
        path="songys/kor_qpair",
        splits={"train": "train", "dev": "validation", "test": "test"},
    ),
    text_fields=("question1", "question2"),
    label_field="is_duplicate",
    labels=("0", "1"),  # 0: of one meaning
    skip_empty=True,
    metrics=(accuracy,),
)

HATE_SPEECH = Classification(
    name="korean-hate-speech",
    suite="korean",
    version="1.0",
    files={
        "train": ("hate-speech/train.tsv", "labeled/train.tsv"),
        "dev": ("hate-speech/dev.tsv", "hate-speech/val.tsv", "labeled/dev.tsv"),
        "test": ("test.no_label.tsv",),
    },
    num_rows={"train": 7_896, "dev": 471, "test": 974},
    homepage="https://github.com/kocohub/korean-hate-speech",
    hub=HubSource(
        path="nayohan/korean-hate-speech",
        splits={"train": "train", "dev": "valid", "test": "test"},
    ),
    text_fields=("comments",),
    aliases={"comment": "comments"},
    label_field="hate",
    labels=("none", "offensive", "hate"),
    metrics=(macro_f1, accuracy),
)

KORQUAD_1 = Spans(
    name="korean-korquad",
    suite="korean",
    version="1.0",
    scorer="korquad-1.0",
    head="span",
    files={"train": ("KorQuAD_v1.0_train.json",), "dev": ("KorQuAD_v1.0_dev.json",)},
    num_rows={"train": 60_407, "dev": 5_774},
    homepage="https://korquad.github.io/KorQuad%201.0/",
    hub=HubSource(path="KorQuAD/squad_kor_v1", splits={"train": "train", "dev": "validation"}),
    id_field="id",
)

TASKS = (NSMC, NAVER_NER, PAWS_X, KORNLI, KORSTS, QUESTION_PAIR, HATE_SPEECH, KORQUAD_1)
