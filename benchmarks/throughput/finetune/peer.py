"""Fine-tuning as a user of `transformers` does it: the peer that ours is timed against.

`Trainer` with its own loop, sampler, AdamW, linear schedule and clipping, over rows that are
tokenised already, padded by `DataCollatorWithPadding` to the longest of a batch. The model is the
encoder as `AutoModel` gives it with ours head's layers, so that both sides start from the same
weights; hyper-parameters, rows and seed are those of ours. What would only slow it is left out:
logging, checkpoints, progress bars and evaluation during training.
"""

import importlib.util
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from benchmarks.encoder import ModelSource, Variant
from benchmarks.finetune.finetune import (
    TaskFeatures,
    build_network,
    choose_device,
    choose_precision,
    seeded,
    training_rows,
)
from benchmarks.finetune.recipe import HyperParameters
from benchmarks.finetune.training import PREDICTION_BATCH_FACTOR, OnStep
from benchmarks.tasks.heads.linear import LinearHead
from benchmarks.tasks.task import Features, Line

# partly typed: as Any they are the same to the type checker in every version of transformers
_TRAINER: Any = Trainer
_ARGUMENTS: Any = TrainingArguments


class SequenceClassifier(nn.Module):
    """An encoder with dropout and one layer on it, called as `Trainer` calls a model."""

    def __init__(self, encoder: nn.Module, head: LinearHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = head.dropout
        self.classifier = head.linear

    def forward(
        self,
        input_ids: Tensor,  # (B, T)
        attention_mask: Tensor,  # (B, T), 1 where there is a piece
        token_type_ids: Tensor,  # (B, T)
        labels: Tensor,  # (B,)
    ) -> dict[str, Tensor]:
        """`loss` and `logits` (B, labels)."""
        states = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        logits = self.classifier(self.dropout(states[:, 0]))
        return {"loss": F.cross_entropy(logits.float(), labels), "logits": logits}


def require_trainer() -> None:
    """`ValueError` where the package is missing that `Trainer` needs."""
    if importlib.util.find_spec("accelerate") is None:
        raise ValueError(
            "--peer: the Trainer of transformers needs the package accelerate; install it "
            "(pip install accelerate)"
        )


def finetune_with_trainer(
    data: TaskFeatures,
    model: ModelSource,
    variant: Variant,
    seed: int,
    settings: HyperParameters,
    device_name: str,
    on_step: OnStep,
    by_length: bool,
) -> list[Line]:
    """Train and predict the reported rows; `on_step` as in `benchmarks.finetune.finetune`.

    `by_length` draws batches of rows of like length, which `Trainer` offers and does not do by
    itself. Global random state is as before afterwards.
    """
    device = choose_device(device_name)
    settings = replace(settings, precision=choose_precision(settings.precision, device))
    rows = training_rows(data.train, settings.max_train_examples, seed)
    reported = next(iter(data.predicted.values()))
    with seeded(seed, device), tempfile.TemporaryDirectory() as folder:
        network = build_network(data.task, model, variant, seed, settings, device)
        head = network.head
        assert isinstance(head, LinearHead)
        trainer = _TRAINER(
            model=SequenceClassifier(network.encoder, head),
            args=_arguments(folder, settings, len(rows), seed, device, by_length),
            train_dataset=_dataset(data.train.features, rows),
            data_collator=DataCollatorWithPadding(model.tokenizer),
            callbacks=[_Steps(on_step, settings.batch_size)],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        # else it predicts by length as well, and gives predictions in that order
        trainer.args.train_sampling_strategy = "random"
        everything = np.arange(len(reported.examples))
        logits = trainer.predict(_dataset(reported.features, everything)).predictions
    outputs = [{"logits": row} for row in logits]
    return data.task.lines(reported.examples, reported.features, outputs)


def _arguments(
    folder: str,
    settings: HyperParameters,
    num_rows: int,
    seed: int,
    device: torch.device,
    by_length: bool,
) -> Any:
    steps = settings.record(num_rows)
    return _ARGUMENTS(
        output_dir=folder,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=PREDICTION_BATCH_FACTOR * settings.batch_size,
        max_steps=steps["num_steps"],
        learning_rate=settings.learning_rate,
        warmup_steps=steps["warmup_steps"],
        lr_scheduler_type="linear",
        weight_decay=settings.weight_decay,
        adam_epsilon=settings.adam_epsilon,
        max_grad_norm=settings.max_gradient_norm,
        bf16=settings.precision == "bf16",
        train_sampling_strategy="group_by_length" if by_length else "random",
        seed=seed,
        use_cpu=device.type == "cpu",
        dataloader_pin_memory=device.type == "cuda",
        remove_unused_columns=False,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )


class _Steps(TrainerCallback):
    """Hands every finished step on."""

    def __init__(self, on_step: OnStep, batch_size: int) -> None:
        self.on_step, self.batch_size = on_step, batch_size

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.on_step(self.batch_size)  # training rows fill every batch


def _dataset(features: Features, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    labels: Mapping[str, Any] = features.labels
    return [
        {
            "input_ids": features.input_ids[row].tolist(),
            "token_type_ids": features.token_type_ids[row].tolist(),
            "labels": labels["labels"][row],
        }
        for row in rows
    ]
