"""Pretraining: one visible step, and the loop around it that watches, validates and saves."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from electrify.artifacts import run_stage, write_json
from electrify.config import PretrainConfig, RunConfig
from electrify.progress import Progress, Stopped, log, stop_on_signal, warn
from electrify.stages import output_dir, pretrain_stage
from model.checkpoint import load_latest, save_checkpoint
from model.data import Batch, SequenceData, to_device
from model.device import autocast, describe, resolve_device, seed_step
from model.electra import ElectraPretrainer, Outputs
from model.flops import (
    matmul_flops_per_token,
    paper_flops,
    parameter_counts,
    six_nd_flops,
)
from model.metrics import batch_metrics
from model.optim import AdamW, learning_rate, make_optimizer, set_learning_rate
from model.watch import MetricsFile, Speed

SUMMARY = "summary.json"
_VALID_SEED_STEP = 2**40  # seeds of validation draws: the same at every validation, never a step's


def pretrain(config: RunConfig, overwrite: bool = False) -> None:
    """Train on the run's shards until `num_steps`; the same command continues a stopped run."""
    run_stage(pretrain_stage(config), lambda folder: Trainer(config, folder).run(), overwrite)


def train_step(
    model: ElectraPretrainer,
    optimizer: AdamW,
    batches: Sequence[Batch],
    config: PretrainConfig,
    seed: int,
    step: int,
) -> tuple[list[Outputs], torch.Tensor]:
    """One update from the micro-batches of a step: the gradient is their mean.

    Returns the outputs of each forward pass and the gradient norm before clipping.
    """
    device = model.embeddings.word.weight.device
    outputs = []
    optimizer.zero_grad(set_to_none=True)
    for micro_step, batch in enumerate(batches):
        rng = seed_step(seed, step, micro_step, device)
        with autocast(config, device):
            output = model(batch.input_ids, batch.token_type_ids, rng, batch.packed)
        (output.loss / len(batches)).backward()
        outputs.append(output)
    # over both networks together, as the original
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_gradient_norm)
    set_learning_rate(optimizer, learning_rate(step, config))
    optimizer.step()
    return outputs, norm


class Trainer:
    """Holds one run's model, data and files; `run` is the loop."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.run_config, self.config, self.folder = config, config.pretrain, folder
        shards, length = output_dir(config) / "shards", config.encode.sequence_length
        self.device = resolve_device(self.config.device)
        self.train_data = SequenceData.from_config(shards, "train", config.encode, config.seed)
        self.valid_data = SequenceData.from_config(shards, "valid", config.encode, config.seed)
        seed_step(config.seed, 2**41, 0, self.device)  # initial weights
        vocab_size = self.train_data.vocab_size
        self.model = ElectraPretrainer(self.config, vocab_size, self.train_data.special)
        self.model.to(self.device)
        self.optimizer = make_optimizer(self.model, self.config)
        self.tokens_per_step = self.config.batch_size * length
        self.speed = Speed()
        self._counted = 0  # steps whose time is in `speed`

    def run(self) -> dict[str, Any]:
        """Train from the newest checkpoint (or the start) to `num_steps`; counts for the manifest.

        Raises `Stopped` after saving if a signal asked for it.
        """
        config, step = self.config, load_latest(self.folder, self.model, self.optimizer)
        metrics = MetricsFile(self.folder, step)
        self._announce(step)
        self.speed = Speed(metrics.last_seconds, step * self.tokens_per_step)
        self._counted = step
        with (
            stop_on_signal() as stop,
            Progress("pretrain", config.num_steps, "steps", step) as progress,
        ):
            self.speed.start()
            while step < config.num_steps:
                outputs, norm = train_step(
                    self.model, self.optimizer, self._batches(step), config,
                    self.run_config.seed, step,
                )  # fmt: skip
                step += 1
                last = step == config.num_steps
                progress.update()
                log_now = step % config.log_every_steps == 0 or last
                save_now = step % config.checkpoint_every_steps == 0 or last or bool(stop)
                if log_now or save_now:
                    self._check(step, norm)
                if log_now:
                    progress.note = self._log(metrics, step, outputs, norm)
                if step % config.valid_every_steps == 0 or last:
                    self._pause(step)
                    self._validate(metrics, step)
                if save_now:
                    self._pause(step)
                    self._save(step)
                if stop and not last:
                    raise Stopped(f"saved step {step:,} of {config.num_steps:,}")
        metrics.close()
        return self._summarise(step)

    def _batches(self, step: int) -> list[Batch]:
        """The micro-batches of a step, on the device."""
        total = self.config.batch_size
        size = self.config.micro_batch_size or total
        return [
            to_device(self.train_data.batch(step * total + start, size), self.device)
            for start in range(0, total, size)
        ]

    def _log(
        self, metrics: MetricsFile, step: int, outputs: Sequence[Outputs], norm: torch.Tensor
    ) -> str:
        self._pause(step)
        record = batch_metrics(outputs) | {
            "learning_rate": learning_rate(step - 1, self.config),
            "gradient_norm": float(norm),
            "tokens_per_second": round(self.speed.tokens_per_second, 1),
        }
        self._write(metrics, "train", step, record)
        return f"MLM {record['generator_loss']:.3f}, RTD {record['discriminator_loss']:.4f}"

    def _check(self, step: int, norm: torch.Tensor) -> None:
        """Stop before a broken state is written or saved."""
        if not math.isfinite(float(norm)):
            raise ValueError(
                f"the gradient norm became {float(norm)} by step {step}: lower "
                f"pretrain.learning_rate (now {self.config.learning_rate}) or lengthen "
                f"warmup_steps (now {self.config.warmup_steps}); the last good checkpoint is in "
                f"{self.folder}"
            )

    @torch.no_grad()
    def _validate(self, metrics: MetricsFile, step: int) -> None:
        """The same sequences, masks and samples each time, without dropout."""
        size = self.config.micro_batch_size or self.config.batch_size
        count = min(self.config.num_valid_batches * size, self.valid_data.num_sequences)
        self.model.eval()
        outputs = []
        for number, start in enumerate(range(0, count, size)):
            batch = to_device(self.valid_data.batch(start, min(size, count - start)), self.device)
            rng = seed_step(self.run_config.seed, _VALID_SEED_STEP, number, self.device)
            with autocast(self.config, self.device):
                outputs.append(self.model(batch.input_ids, batch.token_type_ids, rng, batch.packed))
        self.model.train()
        record = batch_metrics(outputs)
        self._write(metrics, "valid", step, record)
        log(
            f"step {step:,}: valid MLM loss {record['generator_loss']:.3f}, generator accuracy "
            f"{record['generator_accuracy']:.3f}, RTD loss {record['discriminator_loss']:.4f}, "
            f"accuracy {record['rtd_accuracy']:.3f}, AUC {record['rtd_auc']:.3f}, replaced "
            f"{record['replaced_fraction']:.3f}"
        )
        self.speed.start()

    def _write(self, metrics: MetricsFile, kind: str, step: int, record: dict[str, float]) -> None:
        place = {
            "step": step,
            "tokens": step * self.tokens_per_step,
            "seconds": round(self.speed.seconds, 3),
        }
        metrics.write(kind, place, record)

    def _pause(self, step: int) -> None:
        """Count the steps since the last pause into the speed."""
        done = step - self._counted
        self.speed.add(done * self.tokens_per_step, self.device)
        self._counted = step

    def _save(self, step: int) -> None:
        config = self.config
        save_checkpoint(self.folder, step, self.model, self.optimizer, config.keep_checkpoints)
        self.speed.start()

    def _announce(self, step: int) -> None:
        config, length = self.config, self.run_config.encode.sequence_length
        counts = parameter_counts(config, self.train_data.vocab_size)
        num_sequences = config.num_steps * config.batch_size
        epochs = num_sequences / self.train_data.num_sequences
        log(
            f"{describe(self.device)}; {counts['trained']:,} parameters trained "
            f"({counts['discriminator']:,} in the discriminator); "
            f"{self.train_data.num_sequences:,} sequences of {length} tokens, {epochs:.1f} epochs"
        )
        if step:
            log(f"resuming after step {step:,}")
        for language, passes in self.train_data.reader.passes(num_sequences).items():
            if passes > 40:
                warn(
                    f"{passes:.0f} passes over the text in {language}: more text, fewer steps or "
                    "a higher encode.mixture.temperature would serve more"
                )

    def _summarise(self, step: int) -> dict[str, Any]:
        config, length = self.config, self.run_config.encode.sequence_length
        vocab_size, tokens = self.train_data.vocab_size, step * self.tokens_per_step
        summary = {
            "parameters": parameter_counts(config, vocab_size),
            "vocab_size": vocab_size,
            "sequence_length": length,
            "num_steps": step,
            "tokens": tokens,
            "train_sequences": self.train_data.num_sequences,
            "device": describe(self.device),
            "seconds": round(self.speed.seconds, 1),
            "tokens_per_second": round(self.speed.tokens_per_second, 1),
            "flops_matmul": matmul_flops_per_token(config, vocab_size, length) * tokens,
            "flops_paper": paper_flops(config, vocab_size, length, step * config.batch_size),
            "flops_6nd": six_nd_flops(config, vocab_size, tokens),
        }
        write_json(self.folder / SUMMARY, summary)
        return summary
