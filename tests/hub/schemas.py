"""Made-up rows in the public schemas of all data sets of the hub that tasks are read from.

`texts label:a,b n:int32`: a column of text, of class labels in the hub's order, of numbers.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Features, List, Value

from benchmarks.tasks.load import REVISIONS
from benchmarks.tasks.registry import TASKS
from tests.hub.server import Files, Hub

NUM_ROWS = {"train": 8}  # of other splits 4
_YNAT = "IT과학,경제,사회,생활문화,세계,스포츠,정치"
_TAGS = [f"{mark}-{kind}" for kind in ("DT", "LC", "OG", "PS", "QT", "TI") for mark in "BI"]
_TEXT, _NUMBER = Value("string"), Value("int32")
_TEXTS, _NUMBERS = List(_TEXT), List(_NUMBER)
_TYPES: Mapping[str, Any] = {
    **{kind: Value(kind) for kind in ("int32", "int64", "float32", "float64", "bool", "string")},
    "texts": _TEXTS,
    "numbers": _NUMBERS,
    "answers": {"text": _TEXTS, "answer_start": _NUMBERS},
    "entity": {"word": _TEXT, "start_idx": _NUMBER, "end_idx": _NUMBER, "type": _TEXT},
    "scores": {
        "label": Value("float64"),
        "real-label": Value("float64"),
        "binary-label": ClassLabel(names=["negative", "positive"]),
    },
    "turns": List({"role": _TEXT, "text": _TEXT, "state": _TEXTS}),
    "relation": ClassLabel(names=list(TASKS["klue-re"].labels)),
    "klue-tags": List(ClassLabel(names=[*_TAGS, "O"])),
    "wikiann-tags": List(ClassLabel(names=list(TASKS["wikiann-ko"].labels))),
}
_SENTENCE = "서울 한국 기차역에서 만나서 함께 떠나는 사람들"
_VALUES: Mapping[str, Any] = {  # of nested columns
    "labels": {"label": 2.5, "real-label": 2.5, "binary-label": 0},
    "tokens": list(_SENTENCE),
    "langs": [],
    "spans": [],
    "subject_entity": {"word": "서울", "start_idx": 0, "end_idx": 1, "type": "LOC"},
    "object_entity": {"word": "한국", "start_idx": 3, "end_idx": 4, "type": "LOC"},
    "index": [1, 2],
    "word_form": ["서울한국기차역에서함께", "떠난다"],
    "lemma": ["서울 에", "가 ㄴ다"],
    "pos": ["NNP+JKB", "VV+EF"],
    "head": [2, 0],
    "deprel": ["NP_AJT", "VP"],
    "question_type": 1,
    "is_impossible": False,
    "answers": {"text": ["서울"], "answer_start": [0]},
    "domains": ["관광"],
    "dialogue": [
        {"role": "user", "text": f"{_SENTENCE}이 박물관을 찾아요.", "state": ["관광-종류-박물관"]},
        {"role": "sys", "text": "네.", "state": []},
    ],
}
_PAIR = "sentence1 sentence2"
_NLI = "premise hypothesis label:entailment,neutral,contradiction"
_QUESTION = "id title context question answers:answers"
_WIKIANN = "tokens:texts ner_tags:wikiann-tags langs:texts spans:texts"
_GLUE, _KLUE = "train validation test", "train validation"
_MNLI = "train validation_matched validation_mismatched test_matched test_mismatched"
# by data set and configuration: columns, splits
SCHEMAS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "nyu-mll/glue": {
        "cola": ("sentence label:unacceptable,acceptable idx:int32", _GLUE),
        "sst2": ("sentence label:negative,positive idx:int32", _GLUE),
        "mrpc": (f"{_PAIR} label:not_equivalent,equivalent idx:int32", _GLUE),
        "stsb": (f"{_PAIR} label:float32 idx:int32", _GLUE),
        "qqp": ("question1 question2 label:not_duplicate,duplicate idx:int32", _GLUE),
        "mnli": (f"{_NLI} idx:int32", _MNLI),
        "ax": (f"{_NLI} idx:int32", "test"),
        "qnli": ("question sentence label:entailment,not_entailment idx:int32", _GLUE),
        "rte": (f"{_PAIR} label:entailment,not_entailment idx:int32", _GLUE),
        "wnli": (f"{_PAIR} label:not_entailment,entailment idx:int32", _GLUE),
    },
    "klue/klue": {
        "ynat": (f"guid title label:{_YNAT} url date", _KLUE),
        "nli": (f"guid source {_NLI}", _KLUE),
        "sts": (f"guid {_PAIR} labels:scores", _KLUE),
        "ner": ("sentence tokens:texts ner_tags:klue-tags", _KLUE),
        "re": (
            "guid sentence subject_entity:entity object_entity:entity label:relation source",
            _KLUE,
        ),
        "dp": (
            "sentence index:numbers word_form:texts lemma:texts pos:texts head:numbers "
            "deprel:texts",
            _KLUE,
        ),
        "mrc": (
            "guid title context question_type:int32 is_impossible:bool question answers:answers",
            _KLUE,
        ),
        "wos": ("guid domains:texts dialogue:turns", _KLUE),
    },
    "rajpurkar/squad": {"default": (_QUESTION, _KLUE)},
    "rajpurkar/squad_v2": {"default": (_QUESTION, _KLUE)},
    "google/xquad": {
        f"xquad.{language}": (_QUESTION, "validation")
        for language in TASKS["xquad"].reported_splits
    },
    "KorQuAD/squad_kor_v1": {"default": (_QUESTION, _KLUE)},
    "e9t/nsmc": {"default": ("id document label:negative,positive", "train test")},
    "google-research-datasets/paws-x": dict.fromkeys(
        TASKS["paws-x"].reported_splits, (f"id:int32 {_PAIR} label:0,1", _GLUE)
    ),
    "facebook/xnli": dict.fromkeys(TASKS["xnli"].reported_splits, (_NLI, _GLUE)),
    "skt/kobest_v1": {
        "boolq": ("paragraph question label:int64", _GLUE),
        "wic": ("word context_1 context_2 label:int64", _GLUE),
        "sentineg": ("sentence label:int64", f"{_GLUE} test_originated"),
    },
    "unimelb-nlp/wikiann": {
        task.hub.name or "": (_WIKIANN, _GLUE)
        for task in TASKS.values()
        if task.suite == "wikiann" and task.hub
    },
    "kakaobrain/kor_nli": {"multi_nli": (_NLI, "train"), "xnli": (_NLI, "validation test")},
    "mteb/KorSTS": {
        "default": (f"genre filename year id {_PAIR} score:float64", "train valid test")
    },
    "nayohan/korean-hate-speech": {
        "default": ("comments contain_gender_bias bias hate", "train valid test")
    },
    "songys/kor_qpair": {"default": ("question1 question2 is_duplicate:0,1", _GLUE)},
}


def add_tasks(hub: Hub) -> None:
    """Put the data sets of all tasks on the hub, each at the commit or name that is read."""
    for name, configs in SCHEMAS.items():
        revision = REVISIONS[name]
        files: Files = {}
        is_converted = revision.startswith("refs/")  # by the hub, which lays files out otherwise
        for config, (columns, splits) in configs.items():
            for split in splits.split():
                end = f"{split}/0000.parquet" if is_converted else f"{split}-00000-of-00001.parquet"
                files[f"{config}/{end}"] = _split(columns, split)
        if not is_converted:
            files["README.md"] = card(configs).encode()
        hub.add("datasets", name, files, revision)


def parquet(rows: Sequence[Mapping[str, Any]], features: Mapping[str, Any]) -> bytes:
    """A file that says its features, as those of the hub do."""
    table = pa.Table.from_pylist(list(rows), schema=Features(features).arrow_schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _split(columns: str, split: str) -> bytes:
    features = dict(map(_feature, columns.split()))
    is_hidden = split.startswith("test") and "idx:" in columns  # GLUE's
    rows = [
        {name: _value(name, feature, n, is_hidden) for name, feature in features.items()}
        for n in range(NUM_ROWS.get(split, 4))
    ]
    return parquet(rows, features)


def _feature(column: str) -> tuple[str, Any]:
    name, _, kind = column.partition(":")
    return name, _TYPES.get(kind or "string") or ClassLabel(names=kind.split(","))


def _value(name: str, feature: Any, number: int, is_hidden: bool) -> Any:
    if name == "ner_tags":
        place = "LC" if "B-LC" in feature.feature.names else "LOC"
        tags = [f"B-{place}", f"I-{place}", *"O" * (len(_SENTENCE) - 2)]
        return [feature.feature.names.index(tag) for tag in tags]
    if name in _VALUES:
        return _VALUES[name]
    if isinstance(feature, ClassLabel):
        return -1 if is_hidden else number % feature.num_classes
    if name == "label" and feature.dtype == "int64":  # of JSON lines, which know no classes
        return number % 2
    if feature.dtype != "string":
        return number % 6
    if name == "hate":
        return ("none", "offensive", "hate")[number % 3]
    return f"{_SENTENCE} {number}번"


def card(configs: Mapping[str, tuple[str, str]]) -> str:
    """The README of a data set, which says what its configurations and splits are."""
    lines = ["---", "configs:"]
    for config, (_, splits) in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split in splits.split():
            lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    return "\n".join([*lines, "---", ""])
