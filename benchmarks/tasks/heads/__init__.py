"""What stands on an encoder, for each kind of task; all of a task that needs torch."""

from typing import Any

import torch
from torch import nn

from benchmarks.tasks.heads.dialogue import SlotGenerator
from benchmarks.tasks.heads.linear import Head, LinearHead, RegressionHead, drawn
from benchmarks.tasks.heads.parsing import Parser
from benchmarks.tasks.heads.spans import JointHead, SpanHead
from benchmarks.tasks.kinds.classification import Classification, Regression
from benchmarks.tasks.kinds.dialogue import DialogueStateTracking
from benchmarks.tasks.kinds.parsing import DependencyParsing
from benchmarks.tasks.kinds.relations import OBJECT, SUBJECT, RelationExtraction
from benchmarks.tasks.kinds.spans import Spans
from benchmarks.tasks.kinds.tagging import Tagging
from benchmarks.tasks.task import Task


def make_head(task: Task, encoder: nn.Module, tokenizer: Any, generator: torch.Generator) -> Head:
    """A fresh head for a task, its weights drawn by `generator`."""
    config: Any = encoder.config
    num_labels = len(task.labels)
    match task:
        case RelationExtraction():
            pairs = [tokenizer.convert_tokens_to_ids(list(pair)) for pair in (SUBJECT, OBJECT)]
            return LinearHead(encoder, num_labels, generator, task.pooling, pairs)
        case Classification():
            return LinearHead(encoder, num_labels, generator, task.pooling)
        case Regression():
            return RegressionHead(encoder, 1, generator, task.pooling)
        case Tagging():
            return LinearHead(encoder, num_labels, generator, "none")
        case DependencyParsing():  # of one size whatever the encoder's
            tags = len(task.pos_tags) if task.use_pos else None
            return drawn(lambda: Parser(config.hidden_size, num_labels, tags), generator)
        case DialogueStateTracking():
            names = [slot.replace("-", " ") for slot in task.labels]
            ids = tokenizer(names, add_special_tokens=False)["input_ids"]
            return drawn(lambda: SlotGenerator(encoder, ids, tokenizer.pad_token_id), generator)
        case Spans(head="span"):
            return SpanHead(encoder, generator)
        case Spans():  # with a classifier only where questions may have no answer
            weight = task.answerable_weight if task.has_unanswerable else None
            return JointHead(encoder, generator, task.beam_size, weight)
    raise AssertionError(f"no head for {type(task).__name__}")
