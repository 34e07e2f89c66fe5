"""Trials of a search: what they learn from, and which options they have."""

from pathlib import Path

import pytest
from pydantic import ValidationError

import benchmarks.finetune.jobs
from benchmarks.evaluate import TRIALS, evaluate
from benchmarks.finetune.jobs import combinations, trial_data
from benchmarks.results.results import RESULTS, current_results, read_results
from benchmarks.tasks.data import load_data
from electrify.config.evaluate import SearchOptions
from tests.benchmarks.conftest import folder_of
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
    given = {"random_init_control": True, "num_epochs": 8, "search": search}
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
        usable = [r for r in records if r.role == role and not r.degenerate]
        best[role] = max(usable, key=lambda r: r.value)
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
    rates.clear()  # another search: new trials, new jobs
    given["search"] = search | {"learning_rate": [5e-3]}
    evaluate(make_config(seeds=[3], **given), str(model_folder), overwrite=False)
    assert len(rates) == 2
    assert len(read_results(folder / RESULTS)) == 8


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
