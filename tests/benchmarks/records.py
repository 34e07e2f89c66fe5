"""Tasks by short names, their files, and random lines of predictions of every kind of task."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from transformers import BertTokenizer, PreTrainedTokenizerFast

from benchmarks.tasks.own import own_task
from benchmarks.tasks.registry import TASKS
from electrify.config.evaluate import OwnTask

# fields of a record that differ when it is done again
MEASURED = ("seconds", "train_seconds")

COLA = TASKS["glue-cola"]
SST2 = TASKS["glue-sst2"]
MRPC = TASKS["glue-mrpc"]
STSB = TASKS["glue-stsb"]
MNLI = TASKS["glue-mnli"]
QNLI = TASKS["glue-qnli"]
RTE = TASKS["glue-rte"]
YNAT = TASKS["klue-ynat"]
NLI = TASKS["klue-nli"]
NER = TASKS["klue-ner"]
RE = TASKS["klue-re"]
DP = TASKS["klue-dp"]
WOS = TASKS["klue-wos"]
MRC = TASKS["klue-mrc"]
NAVER_NER = TASKS["korean-naver-ner"]
QUESTION_PAIR = TASKS["korean-question-pair"]
HATE_SPEECH = TASKS["korean-hate-speech"]
KORQUAD_1 = TASKS["korean-korquad"]
SQUAD_2 = TASKS["squad-2.0"]

DIALOGUE = {
    "guid": "wos-0",
    "dialogue": [
        {"role": "user", "text": "식당", "state": []},
        {"role": "sys", "text": "이름 은"},
        {"role": "user", "text": "미담", "state": ["식당-이름-미담"]},
        {"role": "sys", "text": "나"},
        {"role": "user", "text": "주차", "state": ["식당-이름-미담", "식당-주차 가능-yes"]},
        {"role": "sys", "text": "나"},
    ],
}

TREES = (
    "## 칼럼명 : INDEX\tWORD_FORM\tLEMMA\tPOS\tHEAD\tDEPREL\n"
    "## dp-0\t민수는 서울에 산다.\n"
    "1\t민수는\t민수 는\tNNP+JX\t3\tNP_SBJ\n"
    "2\t서울에\t서울 에\tNNP+JKB\t3\tNP_AJT\n"
    "3\t산다.\t살 ㄴ다 .\tVV+EF+SF\t0\tVP\n\n"
    "## dp-1\t간다\n1\t간다\t가 ㄴ다\tVV+EF\t0\tVP\n"
)

YNAT_ROW = {"guid": "a", "title": "코스피 상승", "label": "경제"}
RELATION = {
    "guid": "re-0",
    "sentence": "민수는 서울에 산다",
    "subject_entity": {"start_idx": 0, "end_idx": 1},
    "object_entity": {"start_idx": 4, "end_idx": 5},
    "label": "per:place_of_residence",
}


def squad(**fields):
    qa = {"id": "q1", "question": "누구 ?", "answers": [{"text": "가는", "answer_start": 3}]}
    paragraph = {"context": "나는 가는 다는", "qas": [qa | fields]}
    return {"version": "x", "data": [{"title": "t", "paragraphs": [paragraph]}]}


# a file of every format
OFFICIAL_FILES = {
    "klue-ynat": ("ynat-v1.1_dev.json", [YNAT_ROW]),
    "glue-sst2": ("SST-2/dev.tsv", "sentence\tlabel\nfine\t1\n"),
    "glue-stsb": ("STS-B/dev.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t2.5\n"),
    "korean-naver-ner": ("naver-ner/test.tsv", "국회 오늘\tORG-B O\n"),
    "klue-ner": ("klue-ner-v1.1_dev.tsv", "## n-1\t국회\n국\tB-OG\n회\tI-OG\n\n"),
    "klue-re": ("klue-re-v1.1_dev.json", [RELATION]),
    "klue-dp": ("klue-dp-v1.1_dev.tsv", TREES),
    "klue-wos": ("wos-v1.1_dev.json", [DIALOGUE]),
    "squad-1.1": ("dev-v1.1.json", squad()),
    "squad-2.0": ("dev-v2.0.json", squad()),
    "klue-mrc": ("klue-mrc-v1.1_dev.json", squad(guid="g", question_type=2)),
}


def trained_bpe(text: str, pre_tokenizer: pre_tokenizers.PreTokenizer) -> PreTrainedTokenizerFast:
    """A tokenizer of which a piece begins with the blank before a word."""
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=special, show_progress=False, initial_alphabet=alphabet
    )
    backend.train_from_iterator([text] * 2, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    backend.decoder = decoders.ByteLevel()
    named = dict(zip(names, special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **named)


def write(path: Path, content: Any) -> Path:
    """A file of a text, or of a value as JSON, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    return path


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """A file of CSV with the names of the fields, and its name."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, [*rows[0]])
        table.writeheader()
        table.writerows(rows)
    return str(path)


def bert_tokenizer(
    pieces: Iterable[str], added: Iterable[str] = (), lower_case: bool = False
) -> Any:
    """BERT's tokenizer; the line number of a piece is its id, `added` pieces are never split."""
    make: Any = BertTokenizer  # partly typed
    tokenizer = make(vocab={p: n for n, p in enumerate(pieces)}, do_lower_case=lower_case)
    tokenizer.add_special_tokens({"additional_special_tokens": list(added)})
    return tokenizer


def encoder_of_width(hidden_size: int) -> nn.Module:
    """What a head asks of an encoder."""
    module: Any = nn.Module()
    module.config = SimpleNamespace(hidden_size=hidden_size)
    return module


def own_task_of(folder: Path, rows: list[Any], **options: Any) -> Any:
    """The task of a user's own rows, written to a file in the folder."""
    return own_task(OwnTask(train=str(write(folder / "mine.json", rows)), **options))


def write_hate_speech(folder: Path, split: str, rows: Iterable[tuple[str, str]]) -> None:
    """Comments, each with its bias, in the format of BEEP!, labelled in turn."""
    labels = ("none", "offensive", "hate")
    lines = [
        f"{text}\t{bias == 'gender'}\t{bias}\t{labels[number % 3]}\n"
        for number, (text, bias) in enumerate(rows)
    ]
    header = "comments\tcontain_gender_bias\tbias\thate\n"
    write(folder / "hate-speech" / f"{split}.tsv", header + "".join(lines))


def sets(*options: str) -> list[str]:
    """The words of a command that set options of a config."""
    return [word for option in options for word in ("--set", option)]


def right_lines(is_right: Iterable[bool], task: Any = SST2) -> list[dict[str, str]]:
    """A line an example, right where said; gold labels take turns."""
    rows = []
    for number, right in enumerate(is_right):
        gold = number % 2
        predicted = task.labels[gold if right else 1 - gold]
        rows.append({"id": f"dev-{number}", "gold": task.labels[gold], "prediction": predicted})
    return rows


def lines_of(task, rng: np.random.Generator, count: int):
    """Lines that are right here and there, as the task's kind writes them."""
    name = type(task).__name__
    make = {
        "Classification": _labels,
        "RelationExtraction": _labels,
        "OwnWordTagging": _words,
        "Regression": _numbers,
        "FramedTagging": _characters,
        "WordTagging": _words,
        "DependencyParsing": _arcs,
        "DialogueStateTracking": _states,
        "Spans": _answers,
    }[name]
    return [{"id": f"n{number}", **make(task, rng)} for number in range(count)]


def _either(rng, gold, other):
    return gold if rng.random() < 0.6 else other


def _labels(task, rng):
    gold, other = rng.choice(task.labels, 2).tolist()
    shares = rng.dirichlet(np.ones(len(task.labels))).tolist()
    return {"gold": gold, "prediction": _either(rng, gold, other), "probabilities": shares}


def _numbers(task, rng):
    gold = float(rng.integers(0, 6))
    return {"gold": gold, "prediction": gold + float(rng.normal())}


def _characters(task, rng):
    tags = rng.choice(task.labels, (2, 12)).tolist()
    gold = [tags[0][0] if i in (0, 3) else "O" if i == 2 else tags[0][i] for i in range(12)]
    predicted = [_either(rng, gold[i], tags[1][i]) for i in range(12)]
    found = {"text": "국회 에서는 회의를 연", "frame": ["O", "O"]}
    return found | {"gold": gold, "prediction": predicted}


def _words(task, rng):
    gold, other = rng.choice(task.labels, (2, 7)).tolist()
    predicted = [_either(rng, *pair) for pair in zip(gold, other, strict=True)]
    return {"gold": gold, "prediction": predicted}


def _arcs(task, rng):
    heads, labels = rng.integers(0, 5, (2, 4)).tolist(), rng.choice(task.labels, (2, 4)).tolist()
    gold = {"heads": heads[0], "labels": labels[0]}
    predicted = {
        "heads": [_either(rng, *p) for p in zip(*heads, strict=True)],
        "labels": [_either(rng, *p) for p in zip(labels[0], [None, *labels[1][1:]], strict=True)],
    }
    return {"gold": gold, "prediction": predicted}


def _states(task, rng):
    gold = [f"{slot}-값" for slot in rng.choice(task.labels, 3, replace=False).tolist()]
    return {"gold": gold, "prediction": _either(rng, gold, gold[:1])}


def _answers(task, rng):
    gold = ["the old town hall", "town hall"]
    if task.has_unanswerable and rng.random() < 0.4:
        gold = []
    said = _either(rng, gold[0] if gold else "", "old hall of towns")
    found = {"gold": gold, "prediction": said, "answer": said or "x"}
    return found | {"null_odds": float(rng.normal()), "question_type": 1 if gold else 3}
