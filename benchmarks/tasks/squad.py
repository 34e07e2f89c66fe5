"""SQuAD 1.1 and 2.0, and XQuAD: one fine-tuning in English, asked in twelve languages.

The scores are those of the official scripts. Google's ELECTRA predicts SQuAD with the joint head
and, on 2.0, reports at the threshold -2.75 on the odds (configure_finetuning.py
`qa_na_threshold`); "squad-1.1-span" and "squad-2.0-span" have the plain head of BERT instead.
"""

from dataclasses import replace

from benchmarks.tasks.kinds.spans import Spans
from benchmarks.tasks.task import HubSource

_SPLITS = {"train": "train", "dev": "validation"}

SQUAD_1 = Spans(
    name="squad-1.1",
    suite="squad",
    version="1.1",
    scorer="squad-1.1",
    head="joint",
    files={
        "train": ("train-v1.1.json",),
        "dev": ("dev-v1.1.json", "dev-v1.1_from_v2.json"),
    },
    other_texts={"dev": ("dev-v1.1_part.json",)},
    num_rows={"train": 87_599, "dev": 10_570},
    homepage="https://rajpurkar.github.io/SQuAD-explorer/",
    hub=HubSource(path="rajpurkar/squad", splits=_SPLITS),
    id_field="id",
)
SQUAD_2 = replace(
    SQUAD_1,
    name="squad-2.0",
    version="2.0",
    scorer="squad-2.0",
    null_threshold=-2.75,
    files={
        "train": ("train-v2.0.json",),
        "dev": ("dev-v2.0.json", "dev-v2.0_part.json"),
    },
    other_texts={},
    num_rows={"train": 130_319, "dev": 11_873},
    hub=HubSource(path="rajpurkar/squad_v2", splits=_SPLITS),
)
# the plain head of BERT on the same questions
SQUAD_1_SPAN = replace(SQUAD_1, name="squad-1.1-span", variant_of=SQUAD_1.name, head="span")
SQUAD_2_SPAN = replace(
    SQUAD_2, name="squad-2.0-span", variant_of=SQUAD_2.name, head="span", null_threshold=0.0
)
# learnt in English, scored in twelve languages; English stands for the task
_OTHER_LANGUAGES = ("ar", "de", "el", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
XQUAD = replace(
    SQUAD_1,
    name="xquad",
    suite="xquad",
    reported="en",
    also_reported=_OTHER_LANGUAGES,
    files={
        "train": SQUAD_1.files["train"],
        **{language: (f"xquad.{language}.json",) for language in ("en", *_OTHER_LANGUAGES)},
    },
    num_rows={
        "train": SQUAD_1.num_rows["train"],
        **dict.fromkeys(("en", *_OTHER_LANGUAGES), 1_190),
    },
    other_texts={},
    homepage="https://github.com/google-deepmind/xquad",
    hub=HubSource(
        path="google/xquad",
        name="xquad.en",
        splits={"en": "validation"},
        elsewhere={
            "train": ("rajpurkar/squad", None, "train"),
            **{
                language: ("google/xquad", f"xquad.{language}", "validation")
                for language in _OTHER_LANGUAGES
            },
        },
    ),
)

TASKS = (SQUAD_1, SQUAD_2, SQUAD_1_SPAN, SQUAD_2_SPAN, XQUAD)
