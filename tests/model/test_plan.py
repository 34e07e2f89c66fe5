"""Phases cover the run exactly; the rate is its formula; stages follow one another."""

import pytest

from model.plan import Phase, learning_rate, phases_of, stage_at
from tests.model.conftest import VARIANTS, preset

CURRICULUM = (
    {"sequence_length": 16, "steps_fraction": 0.25, "batch_size": 32, "micro_batch_size": 8},
    {"sequence_length": 64, "steps_fraction": 1 / 3},
)


def test_phases_take_their_fractions_and_the_rest_its_length():
    options = {"num_steps": 100, "warmup_steps": 5, "batch_size": 12, "micro_batch_size": 4}
    config = preset(**options, curriculum=CURRICULUM)
    assert phases_of(config) == (
        Phase(first_step=0, num_steps=25, sequence_length=16, batch_size=32, micro_batch_size=8),
        # 0.25 + 1/3 of 100 steps is 58.3; batch and micro-batch are the run's
        Phase(first_step=25, num_steps=33, sequence_length=64, batch_size=12, micro_batch_size=4),
        Phase(first_step=58, num_steps=42, sequence_length=128, batch_size=12, micro_batch_size=4),
    )
    alone = phases_of(preset(num_steps=7, warmup_steps=5, batch_size=12, sequence_length=512))
    assert alone == (Phase(0, 7, 512, 12, 12),)


def test_a_phase_that_is_read_back_has_what_the_run_has():
    mixture = {"temperature": 0.5, "weight": {"ko": 2.0}}
    phases = ({"steps_fraction": 0.5, "mixture": {"temperature": 0.9}},)
    config = preset(mixture=mixture, curriculum=phases)
    again = type(config).model_validate(config.model_dump())
    assert phases_of(again) == phases_of(config)
    assert phases_of(again)[0].mixture.weight == {"ko": 2.0}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 0.0),
        (1, 5e-4 * 0.999_999 / 10_000),
        (5_000, 5e-4 * 0.995 / 2),
        (10_000, 5e-4 * 0.99),  # not the peak: warmup and decay apply together
        (500_000, 2.5e-4),
        (999_999, 5e-10),
        (1_000_000, 0.0),
    ],
)
def test_warmup_and_decay_apply_together(step: int, expected: float):
    assert learning_rate(step, preset()) == pytest.approx(expected, rel=1e-9)


def test_a_short_decay_leaves_the_rate_at_its_peak_until_then():
    """So runs of other lengths are the same until the first of them decays."""
    longer, shorter = (
        preset(num_steps=n, warmup_steps=10, decay_fraction=f) for n, f in ((100, 0.2), (60, 0.5))
    )
    rates = [learning_rate(step, longer) / 5e-4 for step in range(101)]
    assert rates[10:80] == [1.0] * 70
    assert rates[80:] == pytest.approx([1 - k / 20 for k in range(21)])
    assert [learning_rate(step, shorter) / 5e-4 for step in range(31)] == rates[:31]


def test_after_the_language_model_the_rate_warms_up_again():
    options = {"num_steps": 100, "warmup_steps": 10, "decay_fraction": 0.2, "learning_rate": 5e-4}
    config = preset(mlm_steps_fraction=0.6, mlm_learning_rate=1e-3, **options)
    rates = [learning_rate(step, config) for step in range(101)]
    alone = [learning_rate(step, preset(**options)) for step in range(101)]
    assert rates[:60] == pytest.approx([2 * rate for rate in alone[:60]])
    assert rates[60:71] == pytest.approx(alone[:11])  # 0 at first
    assert rates[70:] == alone[70:]
    stages = [stage_at(config, step) for step in range(100)]
    assert stages == ["language"] * 60 + ["joint"] * 40


def test_each_stage_has_the_schedule_of_a_run_of_its_own():
    steps = {"num_steps": 60, "warmup_steps": 10}
    config = preset(**VARIANTS["electra-two-stage"], **steps)
    assert config.generator_steps == 30
    first, second = (preset(num_steps=30, warmup_steps=10) for _ in range(2))
    for step in range(60):
        alone = learning_rate(step, first) if step < 30 else learning_rate(step - 30, second)
        assert learning_rate(step, config) == alone
        assert stage_at(config, step) == ("generator" if step < 30 else "discriminator")
    assert learning_rate(30, config) == learning_rate(60, config) == 0
    assert {stage_at(preset(num_steps=50, warmup_steps=0), s) for s in range(50)} == {"joint"}
