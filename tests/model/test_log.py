"""Figures equal those counted token by token in plain Python, and scikit-learn's; what programs and
boards get of them. That a record goes on after a stop is in test_pretrain.py."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from model import log as watch
from model.data import StepData, open_shards
from model.devices.processes import ALONE
from model.flops import Cost
from model.log import MetricsWindow, RunLog, area_under_roc
from model.networks.batch import Corrupted, Detected, Outputs, Predictions, Term
from model.networks.electra import ElectraPretrainer
from tests.model.conftest import SPECIAL, make_config, random_batch, random_model, write_tiny_shards
from tests.model.trained import records_of


def log_of(folder: Path) -> RunLog:
    config = make_config(folder)
    write_tiny_shards(folder / "shards")
    data = StepData(config, open_shards(folder / "shards"), 0, 1)
    return RunLog(config, folder, 0, data, torch.device("cpu"), ALONE)


def test_figures_are_written_for_programs_and_boards(tmp_path):
    figures = {
        "loss": 1.23456789012,
        "rtd_auc": math.nan,
        "learning_rate": 1.5e-7,
        "flops_paper": 1.25e19,
        "ko/rtd_auc": 0.75,
        "zh-Hant/rtd_auc": math.inf,
    }
    log, board = log_of(tmp_path), Mock()
    log._boards._trackers["a board"] = board
    log.write("valid", 4, figures)
    on_board = {f"valid/{name}": of for name, of in figures.items() if math.isfinite(of)}
    board.log.assert_called_once_with(on_board, 4)
    assert records_of(tmp_path) == [
        {
            "kind": "valid",
            "step": 4,
            "tokens": 4 * 4 * 32,
            "seconds": 0.0,
            "loss": 1.2345679,
            "rtd_auc": None,
            "learning_rate": 1.5e-7,
            "flops_paper": 1.25e19,
            "languages": {"ko": {"rtd_auc": 0.75}, "zh-Hant": {"rtd_auc": None}},
        }
    ]


def test_speed_counts_training_alone(tmp_path, monkeypatch):
    """Between `pause` and `start` the clock runs for nobody."""
    clock = [100.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    log = log_of(tmp_path)
    monkeypatch.setattr(log, "_cost_until", lambda step: Cost(1, 1e9, 2e9) * 1000 * step)
    log._peak = 1e12
    clock[0] += 2
    log.pause(1)
    assert log._speed(waited_seconds=0.5) == pytest.approx(
        {
            "tokens_per_second": 500,
            "mfu": 0.5,
            "data_wait_fraction": 0.25,
            "flops_matmul": 1e12,
            "flops_paper": 2e12,
        }
    )
    clock[0] += 60  # validation
    log.start()
    clock[0] += 4
    log.pause(2)
    assert log._speed(0.0)["tokens_per_second"] == pytest.approx(250)
    assert log.cost()["seconds"] == pytest.approx(6)


# --- figures of passes ----------------------------------------------------------------------------

LANGUAGES = ("ko", "en", "ja")


def batch_metrics(outputs: Sequence[Outputs], languages: Sequence[str]) -> dict[str, float]:
    """All figures over some forward passes."""
    window = MetricsWindow(languages)
    window.add(outputs)
    return window.read()


def make_outputs(model: ElectraPretrainer, seed: int, languages: list[int]) -> Outputs:
    """Of random text with a row of padding; ties among logits, anything in unused slots, and
    figures of a language model."""
    batch = random_batch(model, rows=2, seed=seed).filled_up(3, SPECIAL["[PAD]"])
    out = model(model.mask(replace(batch, languages=torch.tensor(languages)))).without_gradient()
    losses, hits = out.samples.predicted.losses, out.samples.predicted.hits
    logits = out.detected.logits - out.detected.logits.mean()
    anything = Predictions(losses.masked_fill(out.masked.weights == 0, math.inf), hits)
    return replace(
        out,
        samples=replace(out.samples, predicted=anything),
        detected=replace(out.detected, logits=logits.round(decimals=1)),
        predicted=Predictions(losses * 2, ~hits),
    )


MODEL = random_model(mask_fraction=0.4)
LANGUAGES_OF = [0, 1, 0], [1, 1, 0], [0, 0, 1]
BATCHES = [make_outputs(MODEL, seed, rows) for seed, rows in enumerate(LANGUAGES_OF)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def plain_figures(outputs: list[Outputs], language: int | None = None) -> dict[str, float]:
    """Every figure by a loop over rows, slots and tokens."""
    slots: dict[str, list[float]] = {}
    tokens: list[tuple[float, bool, float]] = []  # logit, replaced, loss
    for output in outputs:
        masked, samples = output.masked, output.samples
        for row, own in enumerate(masked.batch.languages.tolist()):
            if language not in (None, own):
                continue
            for name, field in {
                "generator_loss": samples.predicted.losses,
                "generator_accuracy": samples.predicted.hits,
                "language_loss": output.predicted.losses,
                "language_accuracy": output.predicted.hits,
            }.items():
                # where the token could be read, naming it is no guess
                weights = masked.hidden if name.endswith("_accuracy") else masked.weights
                for slot, weight in enumerate(weights[row].tolist()):
                    if weight:
                        slots.setdefault(name, []).append(float(field[row, slot]))
            judged = output.detected.logits, output.corrupted.labels, output.detected.losses
            for place in masked.tokens[row].nonzero().flatten().tolist():
                logit, label, loss = (float(part[row, place]) for part in judged)
                tokens += [(logit, label > 0, loss)]
    figures = {name: mean(values) for name, values in slots.items()}
    called = [(logit > 0, replaced) for logit, replaced, _ in tokens]
    return figures | {
        "replaced_fraction": mean([replaced for _, replaced in called]),
        "rtd_loss": mean([loss for _, _, loss in tokens]),
        "rtd_accuracy": mean([call == replaced for call, replaced in called]),
        "rtd_precision": mean([replaced for call, replaced in called if call]),
        "rtd_recall": mean([call for call, replaced in called if replaced]),
        "rtd_auc": roc_auc_score([r for _, r, _ in tokens], [logit for logit, _, _ in tokens]),
    }


def test_figures_equal_those_of_a_plain_loop():
    found = batch_metrics(BATCHES, LANGUAGES)
    expected = plain_figures(BATCHES)
    for language in (0, 1):
        own = plain_figures(BATCHES, language)
        tokens = (o.masked.tokens[o.masked.batch.languages == language] for o in BATCHES)
        own["tokens"] = sum(int(of.sum()) for of in tokens)
        expected |= {f"{LANGUAGES[language]}/{name}": value for name, value in own.items()}
    expected["ja/tokens"] = 0.0  # a language that did not come up has no figure
    for name in ("generator", "discriminator"):
        total = sum(float(o.terms[name].total) for o in BATCHES)
        count = sum(float(o.terms[name].count(o.counts)) for o in BATCHES)
        expected[f"{name} term"] = total / count
    expected["discriminator_loss"] = expected.pop("discriminator term")
    expected["loss"] = expected.pop("generator term") + 50 * expected["discriminator_loss"]
    assert found == pytest.approx(expected, rel=1e-5)
    assert found["rtd_loss"] == pytest.approx(found["discriminator_loss"], rel=1e-5)


def test_only_the_area_is_of_the_last_step_alone():
    window = MetricsWindow(LANGUAGES)
    for output in BATCHES:
        window.add([output])
    found, expected = window.read(), plain_figures(BATCHES)
    last = plain_figures(BATCHES[-1:])["rtd_auc"]
    for name, value in (expected | {"rtd_auc": last}).items():
        assert found[name] == pytest.approx(value, rel=1e-5), name
    assert last != pytest.approx(expected["rtd_auc"])
    window.reset()
    window.add(BATCHES[:1])
    assert window.read() == pytest.approx(batch_metrics(BATCHES[:1], LANGUAGES), nan_ok=True)


def test_what_an_objective_lacks_is_absent():
    terms = {"discriminator": Term(torch.tensor(9.0), "chosen", 1.0)}
    mlm = replace(BATCHES[0], samples=None, corrupted=None, detected=None, terms=terms)
    found = batch_metrics([mlm], ["all"] * 2)
    names = {"loss", "discriminator_loss", "language_loss", "language_accuracy"}
    assert {name for name in found if "/" not in name} == names
    replace_mlm = replace(mlm, corrupted=BATCHES[0].corrupted)
    assert set(batch_metrics([replace_mlm], ["a", "b"])) >= {*names, "replaced_fraction"}
    # a window over the two stages of a run: each figure over the passes that have it
    window = MetricsWindow(LANGUAGES)
    window.add([replace(BATCHES[0], corrupted=None, detected=None)])
    window.add([BATCHES[1]])
    assert window.read()["rtd_recall"] == pytest.approx(plain_figures(BATCHES[1:2])["rtd_recall"])


def test_undefined_figures_are_not_zero():
    labels = torch.zeros_like(BATCHES[0].corrupted.labels)
    corrupted = Corrupted(BATCHES[0].corrupted.ids, labels)
    detected = Detected(labels - 1, BATCHES[0].detected.losses, BATCHES[0].masked.tokens)
    never = replace(BATCHES[0], corrupted=corrupted, detected=detected)
    found = batch_metrics([never], LANGUAGES)
    assert math.isnan(found["rtd_auc"])
    assert not {"rtd_precision", "rtd_recall"} & found.keys()
    assert np.isnan(area_under_roc(np.array([-1.0, -2.0], np.float32), np.array([True, True])))
