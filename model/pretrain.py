"""The pretraining stage: a step, and the loop around it, which watches, validates and saves."""

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.folder import outdated, write_json
from electrify.stage.plan import SUMMARY, checkpoints, kept_steps, output_dir, pretrain_stage
from electrify.stage.run import run_stage
from electrify.system.machine import Precision, describe_precision, keep_freed_memory
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, Stopped, log, stop_on_signal, warn
from model.checkpoint import (
    PRECISION,
    fetch_checkpoints,
    load_latest,
    newest_state,
    prolong,
    run_identity,
    save_checkpoint,
    upload_checkpoint,
)
from model.compiled import FastStep, Result
from model.data import (
    Loader,
    SequenceData,
    StepData,
    check_batch_sizes,
    noise_key,
    open_shards,
    special_tokens,
)
from model.devices.device import (
    autocast,
    describe,
    place_model,
    precision_of,
    resolve_device,
    seed_dropout,
)
from model.devices.processes import (
    ALONE,
    Ranks,
    bare,
    launch,
    num_launched,
    processes,
    synchronised,
    wrap,
)
from model.devices.xla import check_options, end_step
from model.flops import parameter_counts
from model.log import MetricsWindow, RunLog
from model.networks.batch import Batch, Masked, Outputs, counts_of
from model.networks.electra import ElectraPretrainer
from model.networks.objectives import make_pretrainer
from model.optim import LEAST_SCALE, AdamW, clip, make_optimizer, set_learning_rate
from model.plan import Stage, learning_rate, stage_at
from vocab.shards.files import TokenShards

# draws of validation, the same at every validation, and of initial weights: of no step of a run.
# Below 2**32, as torch's generator on the CPU knows no more of its seed
_VALID_KEY_STEP = 2**31
_INITIAL_STEP = 2**31 + 2**30


def pretrain(config: RunConfig, overwrite: bool = False) -> None:
    """Train on the run's shards until `num_steps`; the same command continues a stopped run, and
    one with another `num_steps` a run whose first steps are the same (`prolong`).

    Where the machine has several GPUs, each has a process (`pretrain.num_devices`).
    """
    overwrite = overwrite or prolong(config)
    number = num_launched(config.pretrain)
    if number > 1 and (overwrite or not (output_dir(config) / "pretrain").exists()):
        log(f"pretrain: starts {number} processes, a device each")
        launch(pretrain, number, config, overwrite)
        return
    if resolve_device(config.pretrain.device).type == "cpu":
        keep_freed_memory()
    with processes(config.pretrain) as ranks:
        trainer, stage = Trainer(config, ranks), pretrain_stage(config)
        has_work = ranks.any_of(outdated(stage) is not None)
        if ranks.is_first:
            run_stage(stage, trainer.run, overwrite)
        elif has_work:
            trainer.run(stage.partial)
        ranks.wait()


class Update(FastStep):
    """One update: mask, generate, sample, discriminate, weigh, backward, clip, update.

    A call does `prepare` and `update`, the latter compiled or recorded where the device allows.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: AdamW,
        config: PretrainConfig,
        window: MetricsWindow,
        seed: int,
        ranks: Ranks = ALONE,
    ) -> None:
        super().__init__(model, config, window, ranks)
        self.optimizer, self.seed = optimizer, seed

    def prepare(self, step: int) -> None:
        """What the host decides for each step: draws of dropout and the learning rate."""
        seed_dropout(self.seed, step, self.ranks.rank)
        set_learning_rate(self.optimizer, learning_rate(step, self.config))

    def update(self, batches: Sequence[Batch], stage: Stage) -> Result:
        """One update from this process's micro-batches of a step.

        It reads tensors alone, waits for none of them, and does the same whatever they hold: so a
        recording of it can be replayed for later steps.
        """
        outputs = self.passes(batches, stage)
        norm, divisors = clip(self.optimizer, self.config)
        if self.optimizer.loss_scale is not None:
            norm = self.optimizer.loss_scale.judge(norm)
        self.optimizer.step(divisors)
        self.window.count(outputs, self.add_sums)
        return outputs, norm

    def passes(self, batches: Sequence[Batch], stage: Stage) -> list[Outputs]:
        """Forward and backward passes of a stage, after which the model has their gradients alone.

        Losses are means over all micro-batches and processes of the step, so neither their number
        nor uneven padding changes the gradient.
        """
        masked = [self.mask(bare(self.model), batch) for batch in batches]
        counts = self.ranks.sum(sum(map(counts_of, masked[1:]), counts_of(masked[0])))
        for parameter in self.model.parameters():
            parameter.grad = None
        outputs = []
        for number, batch in enumerate(masked):
            with synchronised(self.model, number == len(masked) - 1):
                outputs.append(self._pass(batch, counts, stage))
        if self.optimizer.loss_scale is not None:
            gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
            torch._foreach_div_(gradients, self.optimizer.loss_scale.scale)
        return outputs

    def _pass(self, masked: Masked, counts: Tensor, stage: Stage) -> Outputs:
        """Forward and backward of one micro-batch: the generator's first, then the discriminator's.

        No gradient flows from the discriminator to the generator, so the generator's hidden states
        need not be kept while the discriminator makes its own. They are a fifth to a quarter of the
        memory. Both are one pass where the generator learns from the discriminator, and where DDP
        exchanges gradients, which it does once a step.
        """
        apart = self.config.has_generator and self.config.objective != "electra-adversarial"
        stages: Sequence[Stage] = (stage,)
        if stage == "joint" and apart and bare(self.model) is self.model:
            stages = "generator", "discriminator"
        earlier: Outputs | None = None
        for one in stages:
            with autocast(self.config, counts.device):
                output: Outputs = self.model(masked, one, earlier.samples if earlier else None)
                loss = output.loss(counts)
            if self.optimizer.loss_scale is not None:
                loss = loss * self.optimizer.loss_scale.scale
            # processes average their gradients, and the loss is a sum over them
            torch.autograd.backward(loss * self.ranks.num_ranks)
            output = output.without_gradient()
            earlier = replace(output, terms=earlier.terms | output.terms) if earlier else output
        assert earlier is not None
        return earlier


class Trainer:
    """One run, in one process."""

    def __init__(self, config: RunConfig, ranks: Ranks = ALONE) -> None:
        self.run_config, self.config, self.ranks = config, config.pretrain, ranks
        self.device = resolve_device(config.pretrain.device)
        if self.device.type == "xla":
            check_options(config.pretrain)

    def run(self, folder: Path) -> dict[str, Any]:
        """Train from the newest checkpoint (or the start) to `num_steps`; counts for the manifest.

        Raises `Stopped` after saving if a signal asked for it.
        """
        step = self._prepare(folder)
        config = self.config
        with (
            closing(self.log),  # boards hold their last figures back until then
            stop_on_signal("saving first") as stop,
            Loader(self.train_data.micro_batches, self.device, step, config.num_steps) as loader,
            Progress("pretrain", config.num_steps, "steps", step) as progress,
        ):
            self.log.start()
            if step == 0 and self.config.initial_model:
                self._validate(step)
            save_due = False
            while step < config.num_steps:
                batches = loader.take()
                self._begin_stage(step)
                _, norm = self.train_step(batches, step)
                end_step(self.device, self.model)
                step += 1
                last = step == config.num_steps
                progress.update()
                stopped = self.ranks.any_of(bool(stop))
                save_due |= step % config.checkpoint_every_steps == 0
                # an update that fp16 skipped may be one of many, of a run that has diverged
                save_now = last or stopped or (save_due and not self._has_skipped())
                log_now = step % config.log_every_steps == 0 or save_now
                # the terms of two stages are of different losses: no record has both
                log_now |= step == config.second_stage_step
                valid_now = step % config.valid_every_steps == 0 or last
                if (log_now or valid_now) and not math.isfinite(float(norm)):
                    raise UserError(self._divergence(float(norm), step))
                if log_now:
                    note = self.log.train(step, norm, loader.waited_seconds())
                    progress.update(0, note)
                if valid_now:
                    self._validate(step)
                if save_now:
                    self._save(step)
                    save_due = False
                if stopped and not last:
                    raise Stopped(f"saved step {step:,} of {config.num_steps:,}", stop.signal)
        summary = self._summarise(step)
        self.ranks.wait()  # nobody needs the folder under this name any more
        return summary

    def _prepare(self, folder: Path) -> int:
        """Open the data and make the model, its optimisers and its log; the first step to train."""
        self.folder, ranks, config = folder, self.ranks, self.run_config
        shards = open_shards(output_dir(config) / "shards")
        self.train_data = StepData(config, shards, ranks.rank, ranks.num_ranks)
        self.valid_data = SequenceData(config, "valid", shards=shards)
        check_batch_sizes(self.train_data.phases, ranks.num_ranks, self.device)
        self.identity = run_identity(config)
        if config.pretrain.checkpoint_dir and ranks.is_first:
            fetch_checkpoints(folder, config.pretrain.checkpoint_dir, self.identity)
        ranks.wait()
        precision = self._precision(config.pretrain)
        self.config = config.pretrain.model_copy(update={"precision": precision})
        self.run_config = config = config.model_copy(update={"pretrain": self.config})
        model = place_model(make_model(config, shards), self.device)
        if self.config.initial_model and not newest_state(folder):
            # it needs transformers, which take seconds
            from model.weights.initial import load_initial

            load_initial(model, config)
        self.model = wrap(model, self.config, ranks, self.device)
        self.optimizer = make_optimizer(model, self.config)
        step = load_latest(folder, model, self.optimizer, self.identity)
        self.log = RunLog(config, folder, step, self.train_data, self.device, ranks)
        window, seed = self.log.window, config.seed
        self.train_step = Update(self.model, self.optimizer, self.config, window, seed, ranks)
        self._announce(step)
        self._make_state()
        return step

    def _precision(self, config: PretrainConfig) -> Precision:
        """What the whole run is computed in: "auto" is settled at its start, and kept."""
        taken: Precision = precision_of(config, self.device)
        if config.precision == "auto":
            taken = newest_state(self.folder).get("identity", {}).get(PRECISION, taken)
        if self.ranks.any_of(taken == "fp32"):  # of processes on different CPUs
            taken = "fp32"
        if self.device.type == "cpu":
            log(describe_precision("pretrain.precision", taken))
        return taken

    def _make_state(self) -> None:
        """On XLA all that a step changes must be there before the first, and as a step leaves it:
        what the first one made or changed would be something else to the second, compiled again."""
        if self.device.type != "xla":
            return
        self.optimizer.make_state()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(1)
        end_step(self.device)

    def _begin_stage(self, step: int) -> None:
        if step and step == self.config.generator_steps:
            log("the generator is trained: the discriminator starts as its copy")
            bare(self.model).start_discriminator_from_generator()
        if step and step == self.config.mlm_steps:
            log("the MLM warm-up is over: the main network is now trained as the discriminator")
            bare(self.model).start_generator_from_language_model()

    def _divergence(self, norm: float, step: int) -> str:
        """What to say of a run that stops before a state with nan or inf is saved. The same command
        would come to the same end."""
        config, taken = self.config, self.config.precision
        scale = f" at a loss scale below {LEAST_SCALE:g}" if taken == "fp16" else ""
        precision = "" if taken == "fp32" else f", or take precision = 'fp32' (now {taken!r})"
        last = checkpoints(self.folder)[-1:]
        start = "".join(f", or from {path} as pretrain.initial_model" for path in last)
        return (
            f"the gradient norm became {norm} by step {step:,}{scale}: nothing of it is saved. "
            f"Lower pretrain.learning_rate (now {config.learning_rate:g}) or lengthen warmup_steps "
            f"(now {config.warmup_steps:,}){precision}, and train in another output_dir from the "
            f"start{start}"
        )

    @torch.no_grad()
    def _validate(self, step: int) -> None:
        """The same sequences, masks and samples each time, without dropout."""
        self.log.pause(step)
        self.model.eval()
        stage = stage_at(self.config, max(step - 1, 0))  # that of the update before
        outputs, languages = self._valid_outputs(stage), self.valid_data.languages
        self.log.valid(step, outputs, languages)
        self.model.train()
        self.log.start()

    def _valid_outputs(self, stage: Stage) -> Iterator[Outputs]:
        """Of this process's passes, each counted before the next is made."""
        for batch in self._valid_batches():
            with self.train_step.uncompiled(), autocast(self.config, self.device):
                output: Outputs = self.model(bare(self.model).mask(batch), stage)
            yield output
            end_step(self.device)

    def _valid_batches(self) -> Iterator[Batch]:
        """This process's batches; of all processes as many, filled up with padding."""
        config, data, ranks = self.config, self.valid_data, self.ranks
        total = min(config.num_valid_batches * config.batch_size, data.num_sequences)
        micro = config.micro_batch_size or config.batch_size
        for number, start in enumerate(range(0, total, config.batch_size)):
            size = min(config.batch_size, total - start)
            key = noise_key(self.run_config.seed, _VALID_KEY_STEP + number, ranks.rank)
            own = data.batch(start, size, key, ranks.rank, ranks.num_ranks)
            share = -(-size // ranks.num_ranks)
            for first in range(0, share, micro):
                # on XLA of one shape, which is compiled once
                num_rows = micro if self.device.type == "xla" else min(micro, share - first)
                batch = own.rows(slice(first, first + num_rows))
                yield batch.filled_up(num_rows, data.special.pad).to(self.device)

    def _has_skipped(self) -> bool:
        scale = self.optimizer.loss_scale
        return scale is not None and bool(scale.skips)

    def _save(self, step: int) -> None:
        self.log.pause(step)
        config = self.config
        kept = partial(
            kept_steps,
            keep=config.keep_checkpoints,
            keep_every=config.keep_every_steps,
            flat_end=config.flat_end,
        )
        identity = self.identity | {PRECISION: self.config.precision}
        model = bare(self.model)
        path = save_checkpoint(self.folder, step, model, self.optimizer, kept, identity)
        if self.config.checkpoint_dir and self.ranks.is_first:
            upload_checkpoint(path, self.config.checkpoint_dir, kept)
        self._summarise(step)  # of what `export --step` finds
        self.log.start()

    def _announce(self, step: int) -> None:
        data, passes = self.train_data, self.train_data.passes()
        counts = parameter_counts(self.config, data.last.vocab_size)
        lengths = " then ".join(f"{phase.sequence_length}" for phase in data.phases)
        log(
            f"{self.config.objective} on {describe(self.device)}; {counts['trained']:,} parameters "
            f"trained ({counts['discriminator']:,} in the discriminator); "
            f"{data.last.num_sequences:,} sequences of {lengths} tokens; passes over the text: "
            f"{', '.join(f'{number:.1f} ({language})' for language, number in passes.items())}"
        )
        if step:
            log(f"resuming after step {step:,}")
        for warning in self.config.warnings:
            warn(warning)
        for language, number in passes.items():
            if number > 40:
                warn(
                    f"the run passes {number:.0f} times over the text in {language}: use more "
                    "text, fewer steps, a higher pretrain.mixture.temperature or a lower weight"
                )

    def _summarise(self, step: int) -> dict[str, Any]:
        vocab_size = self.valid_data.vocab_size
        summary = {
            "objective": self.config.objective,
            "parameters": parameter_counts(self.config, vocab_size),
            "vocab_size": vocab_size,
            "sequence_length": self.run_config.pretrain.sequence_length,
            "num_steps": step,
            "train_sequences": self.train_data.last.num_sequences,
            "device": describe(self.device),
            "precision": self.config.precision,
            "num_processes": self.ranks.num_ranks,
            **self.log.cost(),
        }
        if self.ranks.is_first:
            write_json(self.folder / SUMMARY, summary)
        return summary


def make_model(config: RunConfig, shards: TokenShards) -> ElectraPretrainer:
    """The run's networks as they are initialised."""
    seed_dropout(config.seed, _INITIAL_STEP)
    return make_pretrainer(config.pretrain, shards.vocab_size, special_tokens(shards))
