"""Alarms are raised by runs that go wrong, once, and by healthy ones never.

That a resumed run raises the same is in test_log.py.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

from model.alarms import GRACE_STEPS, RECENT, Alarms, unigram_entropy
from tests.model.conftest import tiny

LOG_EVERY = 50


def alarms_of(**options: object) -> Alarms:
    config = tiny(**({"num_steps": 10**9, "warmup_steps": 400} | options))
    return Alarms(config, unigram_entropy=7.3, num_epochs=14.5)


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
    """Records along an encoder's curves, stretched to `num_steps`, with noise on every figure."""
    rng = np.random.default_rng(seed)
    for step in range(log_every, num_steps + 1, log_every):
        place = step * KO_TINY[-1, 0] / num_steps
        mlm, rtd, auc, replaced = (np.interp(place, KO_TINY[:, 0], y) for y in KO_TINY.T[1:])
        figures = {
            "generator_loss": mlm,
            "rtd_loss": rtd,
            "rtd_auc": auc,
            "replaced_fraction": replaced,
        }
        noisy = {k: float(v * (1 + noise * rng.normal())) for k, v in figures.items()}
        yield {"kind": "train", "step": step, **noisy}


def changed(records, change: Callable[[Record], Record], first: int, end: int = 10**9):
    """The records with `change` applied to those of some steps."""
    return [r | change(r) if first < r["step"] <= end else r for r in records]


def raised(records, **options: object) -> list[tuple[int, str, str]]:
    """Step, name and text of each alarm; of its end the text is empty."""
    alarms = alarms_of(**options)
    return [(record["step"], *alarm) for record in records for alarm in alarms.add(record)]


def entropy(share: float) -> float:
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


@pytest.mark.parametrize(
    ("num_steps", "log_every", "noise", "warmup_steps"),
    [(600, 5, 0.05, 60), (9600, 50, 0.03, 400), (100_000, 100, 0.03, 10_000)],
)
def test_a_healthy_run_raises_none(num_steps, log_every, noise, warmup_steps):
    records = curve(num_steps, log_every, noise)
    assert raised(records, warmup_steps=warmup_steps, num_steps=num_steps) == []


def short(num_steps, log_every, step_tokens, area, information, seed):
    """Records of a short run that ends at this AUC and this share of a constant answer's loss."""
    rng, replaced = np.random.default_rng(seed), 0.14
    # Hanley and McNeil 1982: the error of the AUC of one step, here near 1/2
    noise = math.sqrt(1 / (12 * step_tokens * replaced * (1 - replaced)))
    for record in curve(num_steps, log_every, seed=seed):
        risen = 1 - math.exp(-4 * record["step"] / num_steps)
        yield record | {
            "rtd_auc": 0.5 + (area - 0.5) * risen + noise * rng.normal(),
            "replaced_fraction": replaced,
            "rtd_loss": entropy(replaced) * (1 - (1 - information) * risen),
        }


# steps, between records, tokens a step; then AUC and share of a constant answer's loss
HEALTHY_TINY = {
    "objectives, electra": (900, 50, 4096, 0.636, 0.942),
    "ablations, two-stage": (4798, 50, 2048, 0.614, 0.977),
    "ablations, generator 1/1": (2861, 50, 2048, 0.654, 0.917),
    "as short as the demo": (600, 20, 1024, 0.68, 0.93),
}
DEAD = {
    "the demo, its text too small": (600, 20, 1024, 0.57, 0.96),
    "ablations, rate 2e-3": (4000, 50, 2048, 0.531, 0.997),
    "the same for longer": (9600, 50, 4096, 0.56, 0.98),
    "rarely logged": (900, 50, 4096, 0.559, 0.997),
}


@pytest.mark.parametrize("name", [*HEALTHY_TINY, *DEAD])
def test_a_discriminator_that_hardly_tells_is_named_in_runs_of_any_length(name):
    num_steps, *figures = (HEALTHY_TINY | DEAD)[name]
    records = short(num_steps, *figures, seed=0)
    found = raised(records, warmup_steps=60, num_steps=num_steps)
    if name in HEALTHY_TINY:
        assert found == []
        return
    ((step, alarm, text),) = found
    assert alarm == "majority-class"
    assert step > min(GRACE_STEPS, 2 / 3 * num_steps)
    for part in ("learning_rate (now 0.002)", f"num_steps is {num_steps:,}", "14.5 times", "AUC"):
        assert part in text


STUCK = {"rtd_auc": 0.507, "replaced_fraction": 0.14, "rtd_loss": entropy(0.14)}
BROKEN = {"majority-class": STUCK, "not-learning": {"generator_loss": 7.28}}


@pytest.mark.parametrize("name", BROKEN)
def test_each_alarm_is_raised_once_and_ends_once(name):
    first, end = GRACE_STEPS + 500, 8000
    (start, *alarm), (over, *ending) = raised(
        changed(curve(9600), lambda r: BROKEN[name], first, end)
    )
    assert (alarm[0], bool(alarm[1])) == (name, True)
    assert ending == [name, ""]
    assert first < start <= first + RECENT * LOG_EVERY
    assert end < over <= end + RECENT * LOG_EVERY


def test_a_new_phase_is_not_set_against_the_one_before():
    """The second stage has another loss; longer sequences are harder at first."""
    change = changed(curve(9600), lambda r: STUCK | {"generator_loss": 7.3}, 6000)
    assert {name for _, name, _ in raised(change)} == {"majority-class", "not-learning"}
    phases = ({"sequence_length": 16, "steps_fraction": 6000 / 10**9},)
    assert raised(change, curriculum=phases) == []


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
