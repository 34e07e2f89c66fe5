"""A small encoder learns what only a task's input tells: markers, the order of words, answers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from transformers import ElectraConfig

from benchmarks.encoder import ModelSource, with_added_tokens
from benchmarks.finetune.finetune import Split, TaskFeatures, finetune
from benchmarks.finetune.recipe import hyper_parameters
from benchmarks.tasks.heads import parsing as parsing_head
from benchmarks.tasks.kinds.parsing import SentenceExample, Word
from benchmarks.tasks.kinds.relations import RelationExample, marked
from benchmarks.tasks.kinds.spans import GoldAnswer, QuestionExample, Spans
from benchmarks.tasks.klue import DP, MRC, RE
from benchmarks.tasks.squad import SQUAD_2
from benchmarks.tasks.task import Example, Line, Task
from electrify.config.evaluate import EvaluateConfig
from tests.benchmarks.conftest import build_tokenizer

NAMES = [f"{first}{last}" for first in "가나다라마바사" for last in "국군강산시"]
FILLERS = [f"{first}{last}" for first in "가나다라마바사" for last in "은는이가"]
FIRST_NAMES, LAST_NAMES = (
    [f"{a}{b}" for a in part for b in "민수영호"] for part in ("김박", "최정")
)
OF_NAMES = build_tokenizer(NAMES)
OF_ANSWERS = build_tokenizer([*FILLERS, *FIRST_NAMES, *LAST_NAMES, "누구", "?"])


def predictions(
    task: Task, train: Sequence[Example], dev: Sequence[Example], **options: Any
) -> list[Line]:
    """Lines of the dev rows after training; embeddings are narrower than states."""
    tokenizer = OF_ANSWERS if isinstance(task, Spans) else OF_NAMES
    config = ElectraConfig(
        vocab_size=len(tokenizer),
        embedding_size=24,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    own = with_added_tokens(tokenizer, task.added_tokens)
    splits = [
        Split(tuple(rows), task.featurize(rows, own, 32, train=rows is train))
        for rows in (train, dev)
    ]
    given = EvaluateConfig(warmup_fraction=0.05, layer_lr_decay=1.0, **options)  # type: ignore[arg-type]
    finetuned = finetune(
        TaskFeatures(task, splits[0], {"dev": splits[1]}),
        ModelSource("random", config, tokenizer),
        "random-init",
        0,
        hyper_parameters(task, given, config.hidden_size),
    )
    assert finetuned.degenerate is None
    return finetuned.lines["dev"]


def learn(*arguments: Any, **options: Any) -> dict[str, float]:
    return arguments[0].score(predictions(*arguments, **options))


def test_markers_decide_a_relation():
    """Every sentence stands under every label; only the marked words differ."""
    task = replace(RE, labels=("no_relation", "per:title", "per:origin"))
    rng = np.random.default_rng(0)
    rows = []
    for number in range(180):
        words = rng.choice(NAMES, 3, replace=False).tolist()
        label = number % 3
        spans = [(3 * n, 3 * n + 1) for n in (label, (label + 1) % 3)]
        sentence = " ".join(words)
        text = marked(sentence, spans[0], spans[1])
        rows.append(RelationExample(str(number), (sentence,), label, text))
    scores = learn(
        task,
        rows[:120],
        rows[120:],
        learning_rate=5e-3,
        num_epochs=14.0,
        batch_size=12,
    )
    assert scores["micro_f1"] == 1.0
    assert scores["auprc"] == pytest.approx(1.0)


def test_the_next_word_is_the_head(monkeypatch):
    """Heads follow from the order of words, labels from the head's name."""
    for name, size in (("LSTM_SIZE", 48), ("ARC_SIZE", 32), ("LABEL_SIZE", 16), ("POS_SIZE", 8)):
        monkeypatch.setattr(parsing_head, name, size)
    task = replace(DP, labels=("NP", "VP", "AP"))
    rng = np.random.default_rng(1)
    rows = []
    for number in range(160):
        forms = rng.choice(NAMES[:12], rng.integers(1, 7)).tolist()
        words = []
        for position, form in enumerate(forms, start=1):
            is_last = position == len(forms)
            label = "VP" if is_last else ("NP", "AP")[forms[position] in NAMES[:6]]
            words.append(Word(form, "NNG", 0 if is_last else position + 1, label))
        rows.append(SentenceExample(str(number), (" ".join(forms),), tuple(words)))
    scores = learn(
        task,
        rows[:120],
        rows[120:],
        learning_rate=5e-3,
        num_epochs=16.0,
        batch_size=15,
    )
    assert scores["uas_micro_f1"] > 0.98
    assert scores["las"] > 0.95
    assert scores["uas_micro_f1_tree"] >= scores["uas_micro_f1"]


def trivial_questions(count: int, has_unanswerable: bool) -> list[QuestionExample]:
    """One name, of one word or two, among words that are none; each third context may lack it."""
    rng = np.random.default_rng(count)
    found = []
    for number in range(count):
        words, answers = rng.choice(FILLERS, rng.integers(12, 40)).tolist(), ()
        if not has_unanswerable or number % 3:
            position = int(rng.integers(1, len(words)))
            name = [str(rng.choice(FIRST_NAMES)), str(rng.choice(LAST_NAMES))][: 1 + number % 2]
            words[position:position] = name
            start = len(" ".join(words[:position])) + 1
            answers = (GoldAnswer(" ".join(name), start),)
        found.append(QuestionExample(str(number), (" ".join(words), "누구 ?"), answers))
    return found


@pytest.mark.parametrize("task", [SQUAD_2, MRC], ids=lambda task: task.name)
def test_answers_are_found_and_their_absence(task: Task):
    """Contexts of up to 41 words in rows of 32 pieces: the answer may stand in any window. One task
    has the joint head, the other the plain one."""
    train, dev = (trivial_questions(count, task.has_unanswerable) for count in (240, 60))
    assert len(task.featurize(train, OF_ANSWERS, 32, train=True).input_ids) > len(train)
    lines = predictions(task, train, dev, learning_rate=5e-3, num_epochs=6.0, batch_size=16)
    scores = task.score(lines)
    assert scores["exact" if "exact" in scores else "exact_match"] > 0.9
    unanswered = [found["prediction"] for found in lines if not found["gold"]]
    assert unanswered.count("") > 0.9 * len(unanswered) > 0
