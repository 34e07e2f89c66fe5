"""Estimates of fine-tunings, against what the shapes say and what they took."""

import numpy as np
import pytest
import torch

from benchmarks.encoder import open_model
from benchmarks.finetune.estimate import Pace, batches_by_length, job_seconds, measure
from benchmarks.finetune.finetune import finetune
from benchmarks.finetune.jobs import Job, prepare
from benchmarks.tasks.load import load_data
from tests.benchmarks.records import YNAT


@pytest.fixture
def planned(make_settings, model_folder, ynat_folder):
    """The rows of YNAT, and a job with these options."""

    def make(share=1.0, train_fraction=1.0, **options):
        source = open_model(str(model_folder))
        settings = make_settings(**options)
        data = load_data(YNAT, ynat_folder)
        features = prepare(YNAT, data, source, settings, [0])
        of_job = YNAT, "pretrained", 0, source.name, settings, train_fraction, "key", data
        return features, Job(*of_job, "a trial", share), source

    return make


def test_the_time_of_a_job_is_that_of_its_steps_and_rows(planned):
    pace = Pace(3.0, 0.5, 10.0, 0)
    for options, num_steps in (
        ({"num_epochs": 2}, 20),  # 140 rows in batches of 14
        ({"num_epochs": 2, "share": 0.5}, 10),
        ({"num_epochs": 2, "train_fraction": 0.5}, 10),
        ({"num_epochs": 1, "max_train_examples": 28}, 2),
        ({"num_epochs": 1, "min_steps": 30}, 30),
    ):
        features, job, _ = planned(**options)
        assert job_seconds(features, job, pace) == 10 + 3 * num_steps + 0.5 * 42


def test_two_batches_stand_for_rows_of_all_lengths():
    lengths = np.random.default_rng(0).gamma(2.0, 30.0, 1000).astype(np.int64) + 3
    longest, *others = batches_by_length(lengths, 16)
    assert sorted(lengths[longest]) == sorted(lengths)[-16:]
    every = np.sort(lengths)[: 1000 // 16 * 16].reshape(-1, 16).max(1).mean()
    assert np.mean([lengths[rows].max() for rows in others]) == pytest.approx(every, rel=0.15)
    assert [len(rows) for rows in batches_by_length(lengths[:3], 16)] == [3] * 3


def test_timed_steps_foretell_a_fine_tuning(planned):
    """The true loop is timed; nothing of it stays in the state of torch. Other work may be running
    beside, so the bounds are wide."""
    features, job, source = planned(num_epochs=8)
    before = torch.get_rng_state()
    pace = measure(features, source, job.settings, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    fitted = finetune(features, source, "pretrained", 0, job.settings)
    expected = job_seconds(features, job, pace)
    assert 0.1 * fitted.train_seconds < expected < 10 * fitted.train_seconds
    assert 0.8 * fitted.peak_memory_mb < pace.memory_mb < 1.25 * fitted.peak_memory_mb
