"""A grid of runs at equal training FLOPs, one table.

    name = "generator"
    base = "../demo.toml"
    [variants]
    "generator 1/4" = { "pretrain.generator_hidden_fraction" = 0.25 }
    "generator 1/1" = { "pretrain.generator_hidden_fraction" = 1.0 }

Corpus, vocabulary and shards of the base are shared by variants that do not change them. Each
variant trains as many steps as the base's FLOPs pay for, and is scored on the base's tasks.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.texts import dump_benchmarks
from electrify.artifacts import write_text
from electrify.config import RunConfig
from electrify.config_file import load_config
from electrify.progress import log
from electrify.stages import READ_OPTIONS, output_dir

_SHARED = ("clean", "vocab", "shards")


@dataclass(frozen=True)
class Ablation:
    """A base config and what each variant changes."""

    name: str
    base: Path
    variants: Mapping[str, Mapping[str, Any]]


def load_ablation(path: Path) -> Ablation:
    """Read and check a grid; `ValueError` naming what is wrong."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"no ablation at {path}; see configs/ablations/") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    if set(raw) != {"name", "base", "variants"} or not raw["variants"]:
        raise ValueError(
            f"{path}: an ablation has name, base and at least one [variants] entry; "
            f"found {sorted(raw)}"
        )
    ablation = Ablation(raw["name"], path.parent / raw["base"], raw["variants"])
    for label, changes in ablation.variants.items():
        try:
            load_config(ablation.base, _overrides(changes))
        except ValueError as error:
            raise ValueError(f"{path}, variant {label!r}: {error}") from None
    return ablation


def ablate(
    path: Path, overrides: Sequence[str], beam_options: Sequence[str], overwrite: bool
) -> str:
    """Run every variant that is not done, write `out/<name>/table.md`, return the table."""
    from model.export import export
    from model.pretrain import pretrain

    ablation = load_ablation(path)
    base = load_config(ablation.base, overrides)
    folder = output_dir(base).parent / f"ablation-{ablation.name}"
    rows = []
    _make_corpus(base, beam_options, overwrite)
    for number, (label, changes) in enumerate(ablation.variants.items()):
        config = variant_config(ablation, base, overrides, changes, folder / f"{number:02d}")
        log(f"variant {label!r}: {config.pretrain.num_steps:,} steps, {config.output_dir}")
        if _shares_corpus(base, config):
            _link(output_dir(base), output_dir(config))
        else:
            _make_corpus(config, beam_options, overwrite)
        pretrain(config, overwrite)
        export(config, overwrite)
        rows.append(_row(label, config, overwrite))
    table = "\n".join([*_HEAD, *rows])
    write_text(folder / "table.md", f"# Ablation {ablation.name}\n\n{table}\n")
    return f"{table}\n\n{folder / 'table.md'}"


def _make_corpus(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    from pipeline.clean import clean
    from vocab.encode import encode
    from vocab.train import train_vocab

    clean(config, beam_options, overwrite, dump_benchmarks(config))
    train_vocab(config, beam_options, overwrite)
    encode(config, beam_options, overwrite)


def variant_config(
    ablation: Ablation,
    base: RunConfig,
    overrides: Sequence[str],
    changes: Mapping[str, Any],
    folder: Path,
) -> RunConfig:
    """The variant's config, its steps set so that training costs the base's FLOPs."""
    from model.flops import matmul_flops_per_token

    words = [*overrides, *_overrides(changes), f"output_dir='{folder}'"]
    config = load_config(ablation.base, words)

    def step_flops(run: RunConfig) -> float:
        length = run.encode.sequence_length
        per_token = matmul_flops_per_token(run.pretrain, run.vocab.size, length)
        return per_token * length * run.pretrain.batch_size

    num_steps = round(base.pretrain.num_steps * step_flops(base) / step_flops(config))
    return load_config(ablation.base, [*words, f"pretrain.num_steps={max(1, num_steps)}"])


def _overrides(changes: Mapping[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in changes.items()]


def _shares_corpus(base: RunConfig, config: RunConfig) -> bool:
    same_encoding = config.encode.model_copy(
        update={option: getattr(base.encode, option) for option in READ_OPTIONS}
    )
    return (config.clean, config.vocab, same_encoding) == (base.clean, base.vocab, base.encode)


def _link(base: Path, variant: Path) -> None:
    """Point the variant's corpus folders at the base's."""
    variant.mkdir(parents=True, exist_ok=True)
    for name in _SHARED:
        link = variant / name
        if not link.exists():
            link.symlink_to(os.path.relpath(base / name, variant), target_is_directory=True)


_HEAD = (
    "| variant | steps | FLOPs | valid MLM loss | replaced | RTD accuracy | RTD AUC | scores |",
    "|---|--:|--:|--:|--:|--:|--:|---|",
)


def _row(label: str, config: RunConfig, overwrite: bool) -> str:
    run = output_dir(config)
    summary = json.loads((run / "pretrain" / "summary.json").read_text(encoding="utf-8"))
    lines = (run / "pretrain" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    valid = [m for m in map(json.loads, lines) if m["kind"] == "valid"][-1]
    figures = [
        f"{valid['generator_loss']:.3f}",
        f"{valid['replaced_fraction']:.3f}",
        f"{valid['rtd_accuracy']:.3f}",
        "-" if valid["rtd_auc"] is None else f"{valid['rtd_auc']:.3f}",
    ]
    cells = [label, f"{summary['num_steps']:,}", f"{summary['flops_matmul']:.2e}", *figures]
    return f"| {' | '.join([*cells, _scores(config, overwrite)])} |"


def _scores(config: RunConfig, overwrite: bool) -> str:
    """Mean and spread per task, evaluating first."""
    if not (config.evaluate.suites or config.evaluate.tasks):
        return "-"
    from benchmarks.evaluate import evaluate
    from benchmarks.results import read_results, summarize

    evaluate(config, None, overwrite)
    summaries = summarize(read_results(output_dir(config) / "evaluate" / "results.jsonl"))
    return ", ".join(
        f"{task} {model} {summary.mean:.4f} ± {summary.sd:.4f}"
        for (task, model), summary in summaries.items()
    )
