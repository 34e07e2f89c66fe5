"""Alarms are raised by runs that go wrong, once, and by healthy ones never."""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from model.watch.alarms import (
    CALM,
    FEWEST,
    GRACE_STEPS,
    JUMP,
    RECENT,
    Alarm,
    Alarms,
    RunFacts,
    unigram_entropy,
)
from tests.model.conftest import tiny

LOG_EVERY = 50


def facts_of(unigram_entropy: float = 7.3, **options: object) -> RunFacts:
    return RunFacts(
        tiny(**({"num_steps": 10**9, "warmup_steps": 400} | options)), (), unigram_entropy
    )


FACTS = facts_of()
# a run of 9,600 steps on Korean: step, generator loss, discriminator loss, AUC, replaced fraction
KO_TINY = np.array(
    [
        [50, 9.395, 0.380, 0.50, 0.148],
        [100, 8.819, 0.281, 0.52, 0.148],
        [200, 7.409, 0.364, 0.55, 0.148],
        [350, 6.650, 0.399, 0.60, 0.147],
        [500, 6.173, 0.378, 0.632, 0.140],
        [1000, 5.656, 0.365, 0.647, 0.132],
        [1500, 5.502, 0.345, 0.691, 0.129],
        [2000, 5.412, 0.331, 0.722, 0.127],
        [3000, 5.224, 0.321, 0.741, 0.124],
        [5000, 4.753, 0.304, 0.767, 0.118],
        [7000, 4.460, 0.279, 0.806, 0.113],
        [9600, 4.276, 0.2595, 0.837, 0.111],
    ]
)
Record = dict[str, object]


def curve(num_steps: int, log_every: int = LOG_EVERY, noise: float = 0.02, seed: int = 0):
    """Records along ko-tiny's curves, stretched to `num_steps`, with noise on every figure."""
    rng = np.random.default_rng(seed)
    for step in range(log_every, num_steps + 1, log_every):
        place = step * KO_TINY[-1, 0] / num_steps
        mlm, rtd, auc, replaced = (np.interp(place, KO_TINY[:, 0], y) for y in KO_TINY.T[1:])
        figures = {
            "generator_loss": mlm,
            "discriminator_loss": rtd,
            "rtd_loss": rtd,
            "rtd_auc": auc,
            "replaced_fraction": replaced,
            "rtd_recall": 0.23 * place / 9600,
            "gradient_norm": 3 * math.exp(rng.normal()),
            "tokens_per_second": 9500.0,
            "seconds": 0.43 * step,
        }
        noisy = {k: float(v * (1 + noise * rng.normal())) for k, v in figures.items()}
        noisy["seconds"] = figures["seconds"]
        yield {"kind": "train", "step": step, "data_fingerprint": int(rng.integers(2**32)), **noisy}


def changed(records, change: Callable[[Record], Record], first: int, end: int = 10**9):
    """The records with `change` applied to those of some steps."""
    return [r | change(r) if first < r["step"] <= end else r for r in records]


def raised(records, facts: RunFacts = FACTS) -> list[tuple[int, Alarm]]:
    alarms = Alarms(facts)
    return [(record["step"], alarm) for record in records for alarm in alarms.add(record)]


def entropy(share: float) -> float:
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("num_steps", "log_every", "noise"), [(600, 5, 0.05), (9600, 50, 0.03), (100_000, 100, 0.03)]
)
def test_a_healthy_run_raises_none(num_steps, log_every, noise, seed):
    warmup_steps = {600: 60, 9600: 400, 100_000: 10_000}[num_steps]
    facts = facts_of(warmup_steps=warmup_steps, num_steps=num_steps)
    assert raised(curve(num_steps, log_every, noise, seed), facts) == []


def validations(shares, ratios):
    return [
        {
            "kind": "valid",
            "step": 1000 * number,
            "mean_state_share": share,
            "participation_ratio": ratio,
        }
        for number, (share, ratio) in enumerate(zip(shares, ratios, strict=True), 1)
    ]


def test_states_that_stay_collapsed_raise_an_alarm_which_ends_when_they_differ():
    facts = facts_of(warmup_steps=1000)
    records = validations([0.97] * 5 + [0.6] * 2, [2.9] * 5 + [30] * 2)
    alarms = raised(records, facts)
    assert [(step, a.name, a.state) for step, a in alarms] == [
        (3000, "collapsed-states", "raised"),
        (6000, "collapsed-states", "over"),
    ]
    assert raised(validations([0.97] * 5, [30] * 5), facts) == []
    assert raised(validations([0.5] * 5, [2.9] * 5), facts) == []


def short(num_steps, log_every, step_tokens, area, recall, information, seed):
    """Records of a short run that ends at this AUC and this share of a constant answer's loss."""
    rng, replaced = np.random.default_rng(seed), 0.14
    # Hanley and McNeil 1982: the error of the AUC of one step, here near 1/2
    noise = math.sqrt(1 / (12 * step_tokens * replaced * (1 - replaced)))
    for record in curve(num_steps, log_every, seed=seed):
        risen = 1 - math.exp(-4 * record["step"] / num_steps)
        yield record | {
            "rtd_auc": 0.5 + (area - 0.5) * risen + noise * rng.normal(),
            "rtd_recall": recall * risen,
            "replaced_fraction": replaced,
            "rtd_loss": entropy(replaced) * (1 - (1 - information) * risen),
        }


# steps, between records, tokens a step; then AUC, recall and share of a constant answer's loss
HEALTHY_TINY = {
    "objectives, electra": (900, 50, 4096, 0.636, 0.08, 0.942),
    "ablations, two-stage": (4798, 50, 2048, 0.614, 0.088, 0.977),
    "ablations, adversarial": (4000, 50, 2048, 0.654, 0.046, 0.939),
    "ablations, generator 1/1": (2861, 50, 2048, 0.654, 0.113, 0.917),
    "as short as the demo": (600, 20, 1024, 0.68, 0.1, 0.93),
}
DEAD = {
    "the demo, its text too small": (600, 20, 1024, 0.57, 0.03, 0.96),
    "ablations, rate 2e-3": (4000, 50, 2048, 0.531, 0.012, 0.997),
    "the same for longer": (9600, 50, 4096, 0.56, 0.03, 0.98),
    "rarely logged": (900, 50, 4096, 0.559, 0.0, 0.997),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [*HEALTHY_TINY, *DEAD])
def test_a_discriminator_that_hardly_tells_is_named_in_runs_of_any_length(name, seed):
    num_steps, *figures = (HEALTHY_TINY | DEAD)[name]
    facts = replace(facts_of(math.inf, warmup_steps=60, num_steps=num_steps), num_epochs=14.5)
    found = raised(short(num_steps, *figures, seed), facts)
    if name in HEALTHY_TINY:
        assert found == []
        return
    ((step, alarm),) = found
    assert (alarm.name, alarm.state) == ("majority-class", "raised")
    assert step > min(GRACE_STEPS, 2 / 3 * num_steps)
    for part in ("learning_rate (now 0.002)", f"num_steps is {num_steps:,}", "14.5 times", "AUC"):
        assert part in alarm.text


def test_single_odd_records_raise_none():
    """A hard batch, a validation beside, a figure that is undefined: never `JUMP` in a row."""
    odd = {
        "generator_loss": 12.0,
        "discriminator_loss": 0.9,
        "gradient_norm": 1e4,
        "tokens_per_second": 50.0,
        "rtd_auc": None,
        "rtd_recall": None,
    }
    records = [r | (odd if i % 30 < JUMP - 1 else {}) for i, r in enumerate(curve(9600))]
    assert raised(records) == []


STUCK = {"rtd_auc": 0.507, "rtd_recall": 0.0, "replaced_fraction": 0.14, "rtd_loss": entropy(0.14)}
# name, what goes wrong, how many records later it is told at the latest
BROKEN = [
    ("majority-class", lambda r: STUCK, RECENT),
    ("generator-too-good", lambda r: {"sample_hit_fraction": 0.97}, RECENT),
    ("not-learning", lambda r: {"generator_loss": 7.28}, RECENT),
    ("gradient-norm", lambda r: {"gradient_norm": r["gradient_norm"] * 1000}, JUMP),
    ("loss-jump", lambda r: {"discriminator_loss": 0.69}, JUMP),
    ("loss-jump", lambda r: {"generator_loss": 7.0}, JUMP),
    ("slow-data", lambda r: {"tokens_per_second": r["tokens_per_second"] / 10}, JUMP),
    ("same-batch", lambda r: {"data_fingerprint": 77}, JUMP),
]


@pytest.mark.parametrize(("name", "change", "delay"), BROKEN)
def test_each_alarm_is_raised_once_and_ends_once(name, change, delay):
    first, end = GRACE_STEPS + 500, 8000
    found = [(s, a) for s, a in raised(changed(curve(9600), change, first, end)) if a.name == name]
    (start, alarm), (over, ending) = found
    assert (alarm.state, ending.state) == ("raised", "over")
    assert first < start <= first + delay * LOG_EVERY
    # what is set against the median before ends when that median has got used to it
    assert over >= start + CALM["train"] * LOG_EVERY
    assert over <= end + (RECENT + CALM["train"]) * LOG_EVERY


def test_an_adversarial_run_that_starts_as_a_language_model_is_told_so():
    facts = facts_of(objective="electra-adversarial", mlm_steps_fraction=0.5)
    broken = changed(curve(9600), lambda r: {"language_loss": 7.3}, 0)
    assert [a.name for _, a in raised(broken, facts)] == ["not-learning"]


def test_a_run_that_never_learned_is_told_after_the_grace():
    broken = changed(curve(9600), lambda r: STUCK | {"generator_loss": 7.3}, 0)
    found = raised(broken)
    first = {"not-learning": LOG_EVERY, "majority-class": FEWEST * LOG_EVERY}
    assert {a.name: step - GRACE_STEPS for step, a in found} == first
    late = facts_of(warmup_steps=4000)
    assert {a.name: step - 8000 for step, a in raised(broken, late)} == first


@pytest.mark.parametrize("step", range(5500, 7500, 400))
def test_a_resumed_run_raises_the_same(step):
    """Everything follows from what was written, wherever the run was cut off."""
    records = changed(curve(9600), lambda r: STUCK | {"tokens_per_second": 900.0}, 5800, 7000)
    lines: list[str] = []
    alarms = Alarms(FACTS)
    for record in records:
        lines.append(json.dumps(record))
        place = {"kind": "alarm", "step": record["step"]}
        lines += [json.dumps(place | alarm.record()) for alarm in alarms.add(record)]
    written = [json.loads(line) for line in lines]
    assert len([r for r in written if r["kind"] == "alarm"]) == 4
    alarms = Alarms(FACTS, [r for r in written if r["step"] <= step])
    resumed = [(r["step"], a) for r in records if r["step"] > step for a in alarms.add(r)]
    assert resumed == [(s, a) for s, a in raised(records) if s > step]


def test_a_new_phase_is_not_set_against_the_one_before():
    """The second stage has another loss; longer sequences are slower, and harder at first."""
    change = changed(
        curve(9600),
        lambda r: {"generator_loss": 7.2, "discriminator_loss": 0.6, "tokens_per_second": 1500.0},
        6000,
    )
    assert {alarm.name for _, alarm in raised(change)} >= {"loss-jump", "slow-data"}
    phases = replace(FACTS, lengths_from=(0, 6000))
    assert raised(change, phases) == []


@pytest.mark.parametrize("objective", ["electra-15", "electric", "replace-mlm", "mlm"])
def test_objectives_without_that_figure_do_not_raise_it(objective):
    facts = facts_of(objective=objective)
    stuck = changed(curve(9600), lambda r: STUCK, 0)
    assert "majority-class" not in {alarm.name for _, alarm in raised(stuck, facts)}
    bare = [{k: r[k] for k in ("kind", "step", "gradient_norm")} for r in curve(9600)]
    assert raised(bare, facts) == []


def test_the_entropy_of_the_pieces():
    """Of a known distribution from a sample; special tokens do not count."""
    shares = np.array([0.5, 0.25, 0.125, 0.125])
    ids = np.random.default_rng(0).choice(np.arange(5, 9), size=(200, 100), p=shares)
    exact = -(shares * np.log(shares)).sum()
    framed = np.pad(ids, ((0, 0), (1, 1)), constant_values=2)
    assert unigram_entropy(framed, [0, 2, 3, 4, 99]) == pytest.approx(exact, abs=0.01)
    # the correction: the mean over many small samples is near the truth, which a plain one is not
    few = [unigram_entropy(ids[row, :20], [0]) for row in range(200)]
    assert np.mean(few) == pytest.approx(exact, abs=0.02)
    assert np.mean(few) - 3 / 40 < exact - 0.04
