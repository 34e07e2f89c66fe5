"""SQuAD 1.1 and 2.0, and sets of their form: XQuAD, KorQuAD 1.0 and KLUE-MRC.

The scores are those of each set's official script. Google's ELECTRA predicts SQuAD with the joint
head and, on 2.0, reports at the threshold -2.75 on the odds (configure_finetuning.py
`qa_na_threshold`); "squad-1.1-span" and "squad-2.0-span" have the plain head of BERT instead, as
KorQuAD (KoELECTRA) and KLUE-MRC (KLUE-baseline) do.
"""

from dataclasses import replace

from benchmarks.tasks.kinds.spans import Spans
from benchmarks.tasks.klue import klue
from benchmarks.tasks.task import HubSource

_SPLITS = {"train": "train", "dev": "validation"}
_SQUAD_HOMEPAGE = "https://rajpurkar.github.io/SQuAD-explorer/"

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
    homepage=_SQUAD_HOMEPAGE,
    hub=HubSource(path="rajpurkar/squad", splits=_SPLITS),
    headline="f1",
    id_field="id",
)

SQUAD_2 = Spans(
    name="squad-2.0",
    suite="squad",
    version="2.0",
    scorer="squad-2.0",
    head="joint",
    null_threshold=-2.75,
    files={
        "train": ("train-v2.0.json",),
        "dev": ("dev-v2.0.json", "dev-v2.0_part.json"),
    },
    num_rows={"train": 130_319, "dev": 11_873},
    homepage=_SQUAD_HOMEPAGE,
    hub=HubSource(path="rajpurkar/squad_v2", splits=_SPLITS),
    headline="f1",
    id_field="id",
)

# the plain head of BERT on the same questions
SQUAD_1_SPAN = replace(
    SQUAD_1,
    name="squad-1.1-span",
    variant_of=SQUAD_1.name,
    head="span",
)
SQUAD_2_SPAN = replace(
    SQUAD_2,
    name="squad-2.0-span",
    variant_of=SQUAD_2.name,
    head="span",
    null_threshold=0.0,
)

KLUE_MRC = Spans(
    **klue("mrc", "klue-mrc-v1.1_{}.json", 17_554, 5_841),
    scorer="klue-mrc",
    head="span",
    headline="rouge_w",
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
    hub=HubSource(path="KorQuAD/squad_kor_v1", splits=_SPLITS),
    headline="f1",
    id_field="id",
)

XQUAD_LANGUAGES = ("ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")


def _xquad(language: str) -> Spans:
    """Learnt in English and asked in `language`; without English data, learnt from a part of it."""
    return replace(
        SQUAD_1,
        name=f"xquad-{language}",
        suite="xquad",
        files={"train": SQUAD_1.files["train"], "dev": (f"xquad.{language}.json",)},
        num_rows={**SQUAD_1.num_rows, "dev": 1_190},
        other_texts={},
        homepage="https://github.com/google-deepmind/xquad",
        hub=None,
    )


XQUAD = tuple(_xquad(language) for language in XQUAD_LANGUAGES)

SQUAD_TASKS = (SQUAD_1, SQUAD_2)
VARIANTS = (SQUAD_1_SPAN, SQUAD_2_SPAN)  # run when named alone
