"""A grid of runs at equal training FLOPs, one table.

    name = "generator"
    base = "../demo.toml"
    [common]                            # optional: what all variants change
    "pretrain.num_steps" = 200
    [variants]
    "generator 1/4" = { "pretrain.generator_hidden_fraction" = 0.25 }
    "generator 1/1" = { "pretrain.generator_hidden_fraction" = 1.0 }

Corpus, vocabulary and shards of the base are shared by variants that do not change them. Each
variant trains as many steps as the base's FLOPs pay for, and is scored on the base's tasks.
"""

import json
import os
import re
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
from electrify.remote_run import is_address
from electrify.stages import READ_OPTIONS, output_dir

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SHARED = ("clean", "vocab", "shards")


@dataclass(frozen=True)
class Ablation:
    """A base config, what all variants change, and what each one changes."""

    name: str
    base: Path
    common: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]


def load_ablation(path: Path) -> Ablation:
    """Read and check a grid; `ValueError` naming what is wrong."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"no ablation at {path}; see configs/ablations/") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    if set(raw) - {"common"} != {"name", "base", "variants"} or not raw["variants"]:
        raise ValueError(
            f"{path}: an ablation has name, base, at least one [variants] entry and, if wanted, "
            f"[common]; found {sorted(raw)}"
        )
    _check_form(path, raw)
    common = raw.get("common", {})
    ablation = Ablation(raw["name"], path.parent / raw["base"], common, raw["variants"])
    for label, changes in ablation.variants.items():
        try:
            load_config(ablation.base, _overrides(common | changes))
        except (ValueError, OSError) as error:  # OSError: a base that cannot be read
            raise ValueError(f"{path}, variant {label!r}: {error}") from None
    return ablation


def _check_form(path: Path, raw: Mapping[str, Any]) -> None:
    name, common = raw["name"], raw.get("common", {})
    if not isinstance(name, str) or not _NAME.fullmatch(name):  # a folder is named by it
        raise ValueError(f"{path}: name = {name!r}; write it of a-z, 0-9, '.', '_' and '-'")
    if not isinstance(raw["base"], str) or "\0" in raw["base"]:
        raise ValueError(f"{path}: base = {raw['base']!r} is no path of a config")
    tables = {"common": common, "variants": raw["variants"]}
    if isinstance(raw["variants"], dict):
        tables |= {f"variants.{label}": changes for label, changes in raw["variants"].items()}
    for label, table in tables.items():
        if not isinstance(table, dict):
            raise ValueError(f"{path}: {label} = {table!r} is no table of options")


def ablate(
    path: Path, overrides: Sequence[str], beam_options: Sequence[str], overwrite: bool
) -> str:
    """Run every variant that is not done, write `out/<name>/table.md`, return the table."""
    from model.export import export
    from model.pretrain import pretrain

    ablation = load_ablation(path)
    overrides = [*_overrides(ablation.common), *overrides]
    base = load_config(ablation.base, overrides)
    if is_address(base.output_dir):
        raise ValueError(
            f"output_dir = {base.output_dir!r}: the variants of an ablation share folders by "
            "links, which an address has not; give a folder: --set output_dir=out/NAME"
        )
    folder = output_dir(base).parent / f"ablation-{ablation.name}"
    rows: list[list[str]] = []
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
        table = _table(rows)  # after each variant, so that a stopped grid has one too
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
    from model.flops import run_flops

    words = [*overrides, *_overrides(changes), f"output_dir='{folder}'"]
    config = load_config(ablation.base, words)

    def flops(run: RunConfig) -> float:
        return run_flops(run.pretrain, run.vocab.size, run.encode.sequence_length).matmul

    num_steps = round(config.pretrain.num_steps * flops(base) / flops(config))
    return load_config(ablation.base, [*words, f"pretrain.num_steps={max(1, num_steps)}"])


def _overrides(changes: Mapping[str, Any]) -> list[str]:
    try:
        return [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    except TypeError as error:
        raise ValueError(f"an option has a value that is no JSON: {error}") from None


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


# of the last validation: heading, key, format
_FIGURES = (
    ("MLM loss", "generator_loss", "{:.3f}"),
    ("MLM accuracy", "generator_accuracy", "{:.3f}"),
    ("main MLM loss", "language_loss", "{:.3f}"),
    ("main MLM accuracy", "language_accuracy", "{:.3f}"),
    ("replaced", "replaced_fraction", "{:.3f}"),
    ("RTD loss", "rtd_loss", "{:.4f}"),
    ("RTD accuracy", "rtd_accuracy", "{:.3f}"),
    ("RTD AUC", "rtd_auc", "{:.3f}"),
)
_COLUMNS = (
    "variant", "steps", "FLOPs", "tokens/s", *(name for name, _, _ in _FIGURES), "scores"
)  # fmt: skip


def _row(label: str, config: RunConfig, overwrite: bool) -> list[str]:
    """A variant's cells; a figure that its objective does not have is a dash."""
    run = output_dir(config)
    summary = json.loads((run / "pretrain" / "summary.json").read_text(encoding="utf-8"))
    lines = (run / "pretrain" / "metrics.jsonl").read_bytes().splitlines()
    valid = [m for m in map(json.loads, lines) if m["kind"] == "valid"][-1]
    figures = [
        "-" if valid.get(key) is None else layout.format(valid[key]) for _, key, layout in _FIGURES
    ]
    return [
        label,
        f"{summary['num_steps']:,}",
        f"{summary['flops_matmul']:.2e}",
        f"{summary['tokens_per_second']:,.0f}",
        *figures,
        _scores(config, overwrite),
    ]


def _table(rows: Sequence[Sequence[str]]) -> str:
    """As Markdown, without the columns that no variant has a figure in."""
    kept = [i for i in range(len(_COLUMNS)) if any(row[i] != "-" for row in rows)]
    lines = [[_COLUMNS[i] for i in kept], ["---"] + ["--:"] * (len(kept) - 1)]
    lines += [[row[i] for i in kept] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _scores(config: RunConfig, overwrite: bool) -> str:
    """Mean and spread per task, evaluating first."""
    if not (config.evaluate.suites or config.evaluate.tasks):
        return "-"
    from benchmarks.evaluate import evaluate
    from benchmarks.results import RESULTS, largest_part, read_results, summarize

    evaluate(config, None, overwrite)
    records = read_results(output_dir(config) / "evaluate" / RESULTS)
    summaries = summarize(largest_part(records))
    return ", ".join(
        f"{task} {model} {summary.mean:.4f} ± {summary.sd:.4f}"
        for (task, model), summary in summaries.items()
    )
