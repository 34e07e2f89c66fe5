"""The report's section on pretraining: figures, curves, languages and alarms, for any objective."""

import math
from collections.abc import Mapping, Sequence

from benchmarks.pages.sections import Points, curve, final_valid, missing, words
from benchmarks.pages.twin_page import TwinPage
from benchmarks.results.run_folder import Json, RunFolder

# metric of pretrain/metrics.jsonl -> what it says; a run has those of its objective
METRICS = {
    "generator_loss": "masked language modelling (MLM) of the generator: mean -log p of the true "
    "token, in nats",
    "generator_accuracy": "masked tokens that the generator's first guess gets right",
    "language_loss": "MLM of the main network: mean -log p of the true token, in nats",
    "language_accuracy": "masked tokens that the main network's first guess gets right",
    "discriminator_loss": "the main network's loss as it is trained; ELECTRA's is the binary "
    "cross-entropy of replaced token detection (RTD) per token",
    "rtd_loss": "binary cross-entropy of RTD per token",
    "baseline_loss": "of the reward's baseline (electra-adversarial)",
    "sample_hit_fraction": "chosen positions at which the generator put the original back",
    "replaced_fraction": "tokens that the generator replaced by another",
    "rtd_accuracy": "tokens rightly called original or replaced, at threshold 0.5",
    "rtd_auc": "chance that a replaced token gets a higher probability than an original one; "
    "0.5 is guessing",
    "rtd_precision": "of the tokens called replaced, those that were",
    "rtd_recall": "of the replaced tokens, those called replaced",
    "mean_state_share": "energy of the mean state of the last layer; 1: all tokens are alike",
    "pooled_variance": "how far the mean states of documents are from each other, of their energy",
    "participation_ratio": "in how many directions those differ",
    "probe_f1": "macro-F1 of logistic regression on the frozen states of the best layer",
}
_LAYER = "probe_layer_"
# metric, title, label of the axis, whether it is drawn on a logarithmic one
_CURVES = (
    ("generator_loss", "Generator loss", "nats per token", True),
    ("language_loss", "Main network, MLM loss", "nats per token", True),
    ("discriminator_loss", "Discriminator loss", "nats per token", True),
)
_BY_LANGUAGE = (
    ("generator_loss", "Generator loss", "nats per token", True),
    ("language_loss", "Main network, MLM loss", "nats per token", True),
    ("rtd_auc", "RTD AUC", "share", False),
    ("replaced_fraction", "Replaced tokens", "share of the tokens judged", False),
)


def add_pretraining(document: TwinPage, run: RunFolder) -> None:
    """Curves and final figures."""
    if missing(document, run, "pretrain", "Pretraining"):
        return
    if not run.metrics:
        document.paragraph("No metrics were logged yet.")
        return
    _add_final(document, final_valid(run))
    _add_alarms(document, alarms_of(run))
    told = {name for record in run.metrics for name in _told(record)}
    for metric, title, label, log_y in _CURVES:
        if metric == "discriminator_loss" and metric not in told:
            continue  # it is the MLM loss drawn before
        curves = {kind: curve(run, kind, metric) for kind in ("train", "valid")}
        _add_plot(document, title, curves, label, log_y)
    detection = {
        "RTD accuracy": curve(run, "valid", "rtd_accuracy"),
        "RTD AUC": curve(run, "valid", "rtd_auc"),
    }
    if any(detection.values()):
        always = [(x, 1 - y) for x, y in curve(run, "valid", "replaced_fraction")]
        detection["always 'original'"] = always
    _add_plot(document, "Replaced token detection, held-out text", detection, "share")
    fractions = {kind: curve(run, kind, "replaced_fraction") for kind in ("train", "valid")}
    _add_plot(document, "Replaced tokens", fractions, "share of the tokens judged")
    _add_languages(document, run)
    directions = {"last layer": curve(run, "valid", "participation_ratio")}
    _add_plot(document, "Directions in which documents differ", directions, "participation ratio")
    layers = {name for record in run.metrics for name in record if name.startswith(_LAYER)}
    probes = {
        f"layer {name.removeprefix(_LAYER)}": curve(run, "valid", name)
        for name in sorted(layers, key=lambda name: int(name.removeprefix(_LAYER)))
    }
    _add_plot(document, "Frozen probe", probes, "macro-F1")
    norms = {"train": curve(run, "train", "gradient_norm")}
    _add_plot(document, "Gradient norm before clipping", norms, "norm", True)
    speed = {"train": curve(run, "train", "tokens_per_second")}
    _add_plot(document, "Speed", speed, "tokens per second")
    share = {"train": curve(run, "train", "mfu")}
    _add_plot(document, "Model FLOPs utilisation (MFU)", share, "share of the device's peak")


def _add_final(document: TwinPage, valid: Json) -> None:
    """The last validation's figures."""
    if not valid:
        document.paragraph("No validation was reached yet.")
        return
    rows: list[Sequence[object]] = [(n, valid[n], METRICS[n]) for n in _told(valid)]
    if valid.get("replaced_fraction") is not None and "rtd_accuracy" in valid:
        baseline = 1 - valid["replaced_fraction"]
        rows.append(("always 'original'", baseline, "RTD accuracy without looking at the text"))
    document.table(["metric", "value", "meaning"], rows, f"Held-out text at step {valid['step']:,}")


def alarms_of(run: RunFolder) -> list[dict[str, object]]:
    """Alarms in the order they were raised: step, name, text, and the step at which each ended."""
    found: list[dict[str, object]] = []
    for record in run.metrics:
        if record["kind"] != "alarm":
            continue
        if record["state"] == "raised":
            texts = {"alarm": record["alarm"], "text": record.get("text", "")}
            found.append({"step": record["step"], **texts, "over_at": None})
        for alarm in found:
            ends = record["state"] == "over" and alarm["alarm"] == record["alarm"]
            if ends and alarm["over_at"] is None:
                alarm["over_at"] = record["step"]
    return found


def _add_alarms(document: TwinPage, alarms: Sequence[Mapping[str, object]]) -> None:
    if not alarms:
        document.paragraph("No alarm was raised.")
        return
    rows = [(a["alarm"], a["step"], a["over_at"], a["text"]) for a in alarms]
    document.table(["alarm", "from step", "to step", "what it means"], rows, "Alarms")


def _add_languages(document: TwinPage, run: RunFolder) -> None:
    """Held-out figures of each language, where there are several."""
    languages = list(dict.fromkeys(n for r in run.metrics for n in r.get("languages", {})))
    final = final_valid(run).get("languages", {})
    if final:
        names = ["tokens", *dict.fromkeys(n for own in final.values() for n in _told(own))]
        document.table(
            ["language", *map(words, names)],
            [(language, *(own.get(n) for n in names)) for language, own in final.items()],
            f"Held-out text of each language at step {final_valid(run)['step']:,}",
        )
    for metric, title, label, log_y in _BY_LANGUAGE:
        for kind, where in (("valid", "held-out text"), ("train", "training text")):
            curves = {name: language_curve(run, kind, name, metric) for name in languages}
            if _add_plot(document, f"{title} by language, {where}", curves, label, log_y):
                break


def language_curve(run: RunFolder, kind: str, language: str, metric: str) -> Points:
    """(step, value) of one metric of one language; undefined values left out."""
    found = (
        (record["step"], record.get("languages", {}).get(language, {}).get(metric))
        for record in run.metrics
        if record["kind"] == kind
    )
    return [(float(step), float(value)) for step, value in found if value is not None]


def _told(record: Json) -> list[str]:
    """The metrics of a record, without a loss that is another one under a second name."""
    found = [name for name in METRICS if name in record]
    for name, same in (("rtd_loss", "discriminator_loss"), ("discriminator_loss", "language_loss")):
        if name in found and same in record and _equal(record[name], record[same]):
            found.remove(name)
    return found


def _equal(a: float | None, b: float | None) -> bool:
    """Means of the same values, that may have been summed in another order."""
    return a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-4))


def _add_plot(
    document: TwinPage,
    title: str,
    curves: Mapping[str, Points],
    label: str,
    log_y: bool = False,
) -> bool:
    """A plot over the steps, or nothing where no curve has a point."""
    found = {name: points for name, points in curves.items() if points}
    if found:
        document.line_plot(title, found, "step", label, log_y)
    return bool(found)
