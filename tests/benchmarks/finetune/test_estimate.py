"""Estimates of fine-tunings, against what the shapes say and the time that they took."""

import numpy as np
import pytest
import torch

from benchmarks.encoder import open_model
from benchmarks.finetune.estimate import Pace, job_seconds, measure
from benchmarks.finetune.finetune import finetune
from benchmarks.finetune.jobs import Job, prepare
from benchmarks.tasks.data import load_data
from tests.benchmarks.records import YNAT


@pytest.fixture
def planned(make_settings, model_folder, ynat_folder):
    """The rows of YNAT, and a job with these options."""

    def make(share=1.0, train_fraction=1.0, **options):
        source = open_model(str(model_folder))
        settings = make_settings(**options)
        features = prepare(YNAT, load_data(YNAT, ynat_folder), source, settings, [0])
        role, trial = "pretrained", "a trial"
        job = Job(YNAT, role, 0, source.name, settings, train_fraction, "key", trial, share)
        return features, job, source

    return make


def test_the_time_of_a_job_is_that_of_its_steps_and_rows(planned):
    pace = Pace(lambda length: 3.0, lambda length: 0.5, 10.0, 0)
    for options, num_steps in (
        ({"num_epochs": 2}, 20),  # 140 rows in batches of 14
        ({"num_epochs": 2, "share": 0.5}, 10),
        ({"num_epochs": 2, "train_fraction": 0.5}, 10),
        ({"num_epochs": 1, "max_train_examples": 28}, 2),
        ({"num_epochs": 1, "min_steps": 30}, 30),
    ):
        features, job, _ = planned(**options)
        assert job_seconds(features, job, pace) == 10 + 3 * num_steps + 0.5 * 42
    features, job, _ = planned(num_epochs=2, freeze="encoder")
    assert job_seconds(features, job, pace) == 10 + 3 * 20 + 0.5 * (42 + 140)


def test_timed_steps_foretell_a_fine_tuning(planned):
    """The true loop is timed; nothing of it stays in the state of torch. Other work may be running
    beside, so the bound is wide."""
    features, job, source = planned(num_epochs=20)
    before = torch.get_rng_state()
    pace = measure(features, source, job.settings, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    took = finetune(features, source, "pretrained", 0, job.settings).train_seconds
    expected = job_seconds(features, job, pace)
    assert 0.1 * took < expected < 10 * took
    assert pace.memory_mb > 0
    assert np.all(np.diff([pace.step(n) for n in (4, 8, 16)]) >= 0)
