"""Trials of a search: what they learn from, and which options they have."""

from pathlib import Path

import pytest
from pydantic import ValidationError

import benchmarks.finetune.jobs
from benchmarks.encoder import open_model
from benchmarks.evaluate import evaluate
from benchmarks.finetune.jobs import (
    choose,
    later_rounds,
    next_round,
    plan_jobs,
    plan_trials,
    trial_data,
)
from benchmarks.finetune.search import combinations, rounds
from benchmarks.results.results import TRIALS, current_results, read_results
from benchmarks.tasks.load import load_data
from electrify.config.evaluate import SearchOptions
from tests.benchmarks.conftest import folder_of, make_result
from tests.benchmarks.records import NER, YNAT

RATES = [1e-9, 5e-3]


@pytest.fixture
def rates(monkeypatch):
    """Seed, role and rate of every fine-tuning, in the order they were started."""
    seen = []
    real = benchmarks.finetune.jobs.finetune

    def finetune(features, model, role, seed, settings, *rest):
        seen.append((role, seed, settings.learning_rate))
        return real(features, model, role, seed, settings, *rest)

    monkeypatch.setattr(benchmarks.finetune.jobs, "finetune", finetune)
    return seen


def test_each_encoder_takes_the_best_of_the_same_trials(make_config, model_folder, rates):
    search = {"learning_rate": RATES, "held_out_fraction": 0.3}
    given = {"random_init_control": True, "num_epochs": 4, "search": search}
    config = make_config(seeds=[3, 4], **given)
    evaluate(config, str(model_folder), overwrite=False)
    roles = ("pretrained", "random-init")
    trials = [(role, 3, rate) for role in roles for rate in RATES]
    assert rates[:4] == trials
    folder = folder_of(config)
    records = read_results(folder / TRIALS)
    assert [r.hyper_parameters["learning_rate"] for r in records] == RATES * 2
    best = {}  # of each encoder, by the score on held-out rows; the first of equals
    for role in roles:
        own = [record for record in records if record.role == role]
        best[role] = max(own, key=lambda r: (r.degenerate is None, r.value))
    assert best["pretrained"].hyper_parameters["learning_rate"] == 5e-3
    results = current_results(folder)
    for result, (role, seed, rate) in zip(results, rates[4:], strict=True):
        assert (result.role, result.seed) == (role, seed)
        assert rate == best[role].hyper_parameters["learning_rate"]
        assert result.search["value"] == best[role].value
        assert result.split == "dev-part"
    assert len(list((folder / "predictions").rglob("*.jsonl"))) == 4  # none of a trial

    rates.clear()  # further seeds: the trials are there
    evaluate(make_config(seeds=[3, 4, 5], **given), str(model_folder), overwrite=False)
    assert [seed for _, seed, _ in rates] == [5, 5]


def test_halving_keeps_the_best_quarter_and_gives_it_more_steps(
    make_config, model_folder, ynat_folder
):
    """Equals stay in their order, and failed trainings are the last to."""
    values = {1e-4: 0.5, 2e-4: 0.9, 3e-4: 0.4, 4e-4: 0.4, 5e-4: 0.3}
    search = {"learning_rate": list(values)}
    config = make_config(search=search, min_steps=1000, random_init_control=True).evaluate
    given = [YNAT], open_model(str(model_folder)), {}, {YNAT.name: load_data(YNAT, ynat_folder)}
    trials = plan_trials(config, *given)
    ((own, number), _) = later_rounds(trials)
    assert (len(own), number) == (5, 2)
    results, tried, seen = {}, [], []
    while trials:
        tried += trials
        seen.append([(t.role, t.settings.learning_rate, t.share) for t in trials])
        for trial in trials:
            degenerate = "constant" if trial.settings.learning_rate == 2e-4 else None
            value = values[trial.settings.learning_rate]
            results[trial.key] = make_result(value=value, degenerate=degenerate)
        trials = next_round(trials, results)
    for role in ("pretrained", "random-init"):
        assert [[(r, s) for name, r, s in of if name == role] for of in seen] == [
            [(rate, 0.125) for rate in values],
            [(1e-4, 0.5), (3e-4, 0.5)],
        ]
    jobs = plan_jobs(config, *given)
    assert {job.settings for job in choose(jobs, tried, results)} == {tried[0].settings}
    assert tried[0].settings.shortened(0.125).min_steps == 125


def test_a_search_has_rounds_where_these_have_enough_steps(make_settings):
    settings, tried = make_settings(num_epochs=4.0, batch_size=10), [{"learning_rate": 1e-4}] * 16
    for num_rows, expected in (
        (1200, [(16, 0.125), (4, 0.5)]),  # 480 steps, cost of four whole trainings
        (1000, [(16, 0.5)]),
        (200, [(16, 1.0)]),
    ):
        assert rounds(tried, settings, num_rows) == expected
    assert rounds([*tried, {"num_epochs": 1.0}], settings, 1200) == [(17, 0.5)]


def test_trials_see_the_training_rows_of_the_first_seed_and_no_others(make_config, make_settings):
    config = make_config()
    data = load_data(YNAT, Path(config.evaluate.data_dir))
    settings = make_settings(max_train_examples=100)
    part = trial_data(YNAT, data, settings, seed=0, fraction=0.25)
    learnt, held_out = ({e.id for e in rows} for rows in (part.train, part.reported))
    assert not learnt & held_out
    assert len(part.train) + len(part.reported) == 100
    assert learnt | held_out <= {e.id for e in data.train}
    assert not part.further
    texts = [{e.texts[0] for e in rows} for rows in (part.train, part.reported)]
    assert not texts[0] & texts[1]  # equal texts stand on one side
    with pytest.raises(ValueError, match="held_out_fraction = 1e-09"):
        trial_data(YNAT, data, settings, seed=0, fraction=1e-9)


def test_combinations_are_all_or_a_draw_and_fit_the_task():
    search = SearchOptions(learning_rate=(1e-4, 1e-3), pooling=("cls", "mean"), num_epochs=(3.0,))
    every = combinations(search, YNAT)
    assert len(every) == 4
    assert len({tuple(sorted(c.items())) for c in every}) == 4
    assert combinations(search, NER) == [
        {"learning_rate": rate, "num_epochs": 3.0} for rate in (1e-4, 1e-3)
    ]
    drawn = combinations(search.model_copy(update={"num_trials": 3}), YNAT)
    assert len(drawn) == 3
    assert all(one in every for one in drawn)
    assert combinations(SearchOptions(pooling=("cls", "mean")), NER) == []
    with pytest.raises(ValidationError, match="no values"):
        SearchOptions(num_trials=3)
