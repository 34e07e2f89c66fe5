"""What a run was trained on and how: the network, pretraining, vocabulary, corpus, its stages.

A stage not made yet is a sentence.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results.run_folder import Json, RunFolder, has_stages
from benchmarks.results.table import Table, short
from electrify.page.page import Page
from electrify.stage.plan import VERBS
from electrify.storage.files import read_toml
from electrify.system.progress import duration

Points = list[tuple[float, float]]

_TABLES = read_toml(Path(__file__).with_name("metrics.toml"))
_MEANINGS: Mapping[str, str] = _TABLES["meanings"]
_KEPT = ("documents_in", "documents_kept", "characters_in", "characters_kept")
_WORDS: Mapping[str, str] = _TABLES["vocabulary"]


def unfinished_text(run: RunFolder, stage: str) -> str:
    """What to do about a stage of which only a part is there."""
    text = f"The stage {stage} is not finished; figures are those so far. "
    if stage in VERBS and has_stages(run):
        return f"{text}Resume with: electrify {VERBS[stage]} CONFIG"
    return f"{text}The command that began it resumes it."


def missing(page: Page, run: RunFolder, stage: str, what: str) -> bool:
    """Say that a stage is not there, or only in part; True if there is nothing to show."""
    if stage in run.unfinished:
        page.paragraph(unfinished_text(run, stage))
    elif stage not in run.manifests:
        page.paragraph(f"{what}: not there yet. Run: electrify {VERBS[stage]} CONFIG")
        return True
    return False


def _words(key: str) -> str:
    return key.replace("_", " ")


def add_model(page: Page, run: RunFolder) -> None:
    options, summary = run.config("pretrain"), run.summary
    rows: dict[str, Any] = {}
    count = summary["parameters"] if summary else {"generator": 1}
    if options:
        width = f"{options['generator_hidden_fraction']:.3g} of the discriminator's width"
        rows |= {
            "size": options["size"],
            "discriminator": (
                f"{options['num_hidden_layers']} layers, hidden {options['hidden_size']}, "
                f"{options['num_attention_heads']} heads, embedding {options['embedding_size']}"
            ),
            "objective": options["objective"],
            "generator": width if count["generator"] else None,
            "sequence length": options["sequence_length"],
        }
    if summary:
        rows |= {
            "vocabulary": summary.get("vocab_size"),
            "parameters of the discriminator, as trained": count["discriminator"],
            "parameters of the generator": count["generator"] or None,
            "parameters trained, shared ones once": count["trained"],
            "pretraining steps": summary["num_steps"],
            "tokens seen": summary["tokens"],
            "training FLOPs in matrix products": short(summary.get("flops_matmul")),
            "training FLOPs, the paper's count": short(summary.get("flops_paper")),
            "pretraining time": duration(summary["seconds"]),
            "tokens per second": round(summary["tokens_per_second"]),
            "device": summary["device"],
            "peak memory (MB)": run.manifests.get("pretrain", {}).get("peak_memory_mb"),
        }
    if not rows:
        page.paragraph("Not pretrained yet. Run: electrify pretrain CONFIG")
    Table(["", "value"], [row for row in rows.items() if row[1] is not None]).add_to(page)


def curve(run: RunFolder, kind: str, metric: str, language: str = "") -> Points:
    """(step, value) of one metric, or of that of one language; undefined values are left out."""
    records = [record for record in run.metrics if record["kind"] == kind]
    figures = [r.get("languages", {}).get(language, {}) if language else r for r in records]
    return [
        (float(record["step"]), float(own[metric]))
        for record, own in zip(records, figures, strict=True)
        if own.get(metric) is not None
    ]


def final_valid(run: RunFolder) -> Json:
    """The last validation's record, empty if there was none."""
    return next((record for record in reversed(run.metrics) if record["kind"] == "valid"), {})


def add_pretraining(page: Page, run: RunFolder) -> None:
    if missing(page, run, "pretrain", "Pretraining"):
        return
    if not run.metrics:
        page.paragraph("No metrics were logged yet.")
        return
    _add_final(page, final_valid(run))
    distinct = {name for record in run.metrics for name in _distinct(record)}
    for plot in _TABLES["plots"]:
        metric = plot["metric"]
        if metric in distinct or metric not in _MEANINGS:
            curves = {kind: curve(run, kind, metric) for kind in plot["kinds"]}
            _add_plot(page, plot["title"], curves, plot)
        if metric == "rtd_auc":
            _add_detection(page, run)
    _add_languages(page, run)


def _add_final(page: Page, valid: Json) -> None:
    if not valid:
        page.paragraph("No validation was reached yet.")
        return
    rows: list[Sequence[object]] = [(n, valid[n], _MEANINGS[n]) for n in _distinct(valid)]
    if valid.get("replaced_fraction") is not None and "rtd_accuracy" in valid:
        always = 1 - valid["replaced_fraction"]
        rows.append(("always 'original'", always, "RTD accuracy without looking at the text"))
    page.table(["metric", "value", "meaning"], rows, f"Held-out text at step {valid['step']:,}")


def _add_languages(page: Page, run: RunFolder) -> None:
    valid = final_valid(run)
    if final := valid.get("languages", {}):
        names = ["tokens", *dict.fromkeys(n for own in final.values() for n in _distinct(own))]
        page.table(
            ["language", *map(_words, names)],
            [(language, *(own.get(n) for n in names)) for language, own in final.items()],
            f"Held-out text of each language at step {valid['step']:,}",
        )
    languages = list(dict.fromkeys(n for r in run.metrics for n in r.get("languages", {})))
    for plot in (plot for plot in _TABLES["plots"] if plot.get("languages")):
        curves = {n: curve(run, "valid", plot["metric"], language=n) for n in languages}
        _add_plot(page, f"{plot['title']} by language, held-out text", curves, plot)


def _distinct(record: Json) -> list[str]:
    """The metrics of a record, without a loss that is another one under a second name."""
    names = [name for name in _MEANINGS if name in record]
    for name, same in (("rtd_loss", "discriminator_loss"), ("discriminator_loss", "language_loss")):
        if name in names and same in record:
            one, two = record[name], record[same]  # means that may be summed in another order
            if one == two or (None not in (one, two) and math.isclose(one, two, rel_tol=1e-4)):
                names.remove(name)
    return names


def _add_detection(page: Page, run: RunFolder) -> None:
    named = {"RTD accuracy": "rtd_accuracy", "RTD AUC": "rtd_auc"}
    curves = {name: curve(run, "valid", metric) for name, metric in named.items()}
    if any(curves.values()):
        always = [(x, 1 - y) for x, y in curve(run, "valid", "replaced_fraction")]
        curves["always 'original'"] = always
    _add_plot(page, "Replaced token detection, held-out text", curves, {"label": "fraction"})


def _add_plot(page: Page, title: str, curves: Mapping[str, Points], plot: Json) -> None:
    """A plot over the steps, or nothing where no curve has a point."""
    drawn = {name: points for name, points in curves.items() if points}
    if drawn:
        page.line_plot(title, drawn, "step", plot["label"], plot.get("log", False))


def add_side_by_side(page: Page, runs: Sequence[RunFolder]) -> None:
    figures = []
    for run in runs:
        own = {**final_valid(run), **run.summary}
        if run.summary:
            own["parameters"] = run.summary["parameters"]["discriminator"]
            own["flops_paper"] = short(own["flops_paper"])
        figures.append(own)
    rows = [
        (_words(key), *(own.get(key) for own in figures))
        for key in _TABLES["compared"]
        if any(key in own for own in figures)
    ]
    page.table(
        ["", *(run.name for run in runs)],
        rows,
        "Pretraining: last figures on held-out text, and cost",
    )


def add_corpus(page: Page, run: RunFolder) -> None:
    missing(page, run, "clean", "The corpus")
    missing(page, run, "vocab", "The vocabulary")
    rows: dict[str, Counter[str]] = {}
    for source in run.corpus.get("sources", []):
        counts = rows.setdefault(source["language"], Counter())
        counts.update({key: source.get(key, 0) for key in _KEPT})
    words = run.vocabulary.get("languages", {})
    table = [
        {
            "language": language,
            **{key.replace("_", " "): counts.get(key) for key in _KEPT},
            **{name: words.get(language, {}).get(key) for key, name in _WORDS.items()},
        }
        for language in dict.fromkeys((*rows, *words))
        for counts in [rows.get(language, Counter())]
    ]
    page.records(table)
    size = run.vocabulary.get("vocab_size")
    page.paragraph(
        (f"The vocabulary has {size:,} pieces, special tokens included. " if size else "")
        + "With fewer pieces a word a sequence holds more text. Samples: clean/report.html, "
        "vocab/report.html."
    )


def add_stages(page: Page, run: RunFolder) -> None:
    rows = [
        {
            "stage": stage,
            "time": duration(manifest["seconds"]),
            "peak memory (MB)": manifest["peak_memory_mb"],
            "files (MB)": sum(entry["bytes"] for entry in manifest["files"].values()) / 1e6,
            "code": manifest["git_commit"],
            "finished (UTC)": manifest["finished_at"],
        }
        for stage, manifest in run.manifests.items()
    ]
    if not rows:
        page.paragraph("No stage is finished yet.")
        return
    page.records(rows)
    used: dict[str, dict[str, None]] = {}
    for manifest in run.manifests.values():
        for library, version in manifest["versions"].items():
            used.setdefault(library, {})[version] = None
    page.table(["library", "version"], [(n, ", ".join(v)) for n, v in sorted(used.items())])
    sections = {stage: run.config(stage) for stage in VERBS if run.config(stage)}
    page.code("The resolved config, by stage", json.dumps(sections, ensure_ascii=False, indent=1))
