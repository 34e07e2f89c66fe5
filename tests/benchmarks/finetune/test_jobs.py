"""Jobs and trials of a search, and what the searched options do to an encoder."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

import benchmarks.finetune.jobs
from benchmarks.encoder import encode, load_encoder, open_model, shape_layers
from benchmarks.evaluate import TRIALS, evaluate
from benchmarks.finetune.jobs import combinations, trial_data
from benchmarks.results.results import RESULTS, current_results, read_results
from benchmarks.tasks.data import load_data
from benchmarks.tasks.heads.linear import LinearHead
from electrify.config.evaluate import SearchOptions
from tests.benchmarks.conftest import folder_of
from tests.benchmarks.records import NER, YNAT

RATES = [1e-9, 5e-3]


@pytest.fixture
def rates(monkeypatch):
    """Seed, variant and rate of every fine-tuning, in the order they were started."""
    seen = []
    real = benchmarks.finetune.jobs.finetune

    def finetune(features, model, variant, seed, settings, *rest):
        seen.append((variant, seed, settings.learning_rate))
        return real(features, model, variant, seed, settings, *rest)

    monkeypatch.setattr(benchmarks.finetune.jobs, "finetune", finetune)
    return seen


def test_each_encoder_takes_the_best_of_the_same_trials(make_config, model_folder, rates):
    search = {"learning_rate": RATES, "held_out_fraction": 0.3}
    given = {"random_init_control": True, "num_epochs": 8, "search": search}
    config = make_config(seeds=[3, 4], **given)
    evaluate(config, str(model_folder), overwrite=False)
    variants = ("pretrained", "random-init")
    trials = [(variant, 3, rate) for variant in variants for rate in RATES]
    assert rates[:4] == trials
    folder = folder_of(config)
    records = read_results(folder / TRIALS)
    assert [r.hyper_parameters["learning_rate"] for r in records] == RATES * 2
    best = {}  # of each encoder, by the score on held-out rows; the first of equals
    for variant in variants:
        usable = [r for r in records if r.role == variant and not r.degenerate]
        best[variant] = max(usable, key=lambda r: r.value)
    assert best["pretrained"].hyper_parameters["learning_rate"] == 5e-3
    results = current_results(folder)
    for result, (variant, seed, rate) in zip(results, rates[4:], strict=True):
        assert (result.role, result.seed) == (variant, seed)
        assert rate == best[variant].hyper_parameters["learning_rate"]
        assert result.search["value"] == best[variant].value
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


def test_combinations_are_all_or_a_draw_and_fit_the_task_and_the_layers(model_folder):
    model = open_model(str(model_folder))
    search = SearchOptions(learning_rate=(1e-4, 1e-3), pooling=("cls", "mean"), num_epochs=(3.0,))
    every = combinations(search, YNAT, model)
    assert len(every) == 4
    assert len({tuple(sorted(c.items())) for c in every}) == 4
    assert combinations(search, NER, model) == [
        {"learning_rate": rate, "num_epochs": 3.0} for rate in (1e-4, 1e-3)
    ]
    drawn = combinations(search.model_copy(update={"num_trials": 3}), YNAT, model)
    assert len(drawn) == 3
    assert all(one in every for one in drawn)
    layers = SearchOptions(num_layers=(1, 2, 3), reinitialized_layers=(0, 2))
    found = [
        (one["num_layers"], one["reinitialized_layers"])
        for one in combinations(layers, YNAT, model)
    ]
    assert found == [(1, 0), (2, 0), (2, 2)]  # of two layers
    assert combinations(SearchOptions(pooling=("cls", "mean")), NER, model) == []
    with pytest.raises(ValidationError, match="no values"):
        SearchOptions(num_trials=3)


@pytest.mark.parametrize("fractions", [[0.1, 1.0], [0.1]])
def test_a_search_takes_the_whole_training_split(make_config, fractions):
    with pytest.raises(ValueError, match="train_fractions"):
        make_config(search={"num_epochs": [1.0]}, train_fractions=fractions)


def test_a_shorter_twin_leaves_the_model_as_it_is(model_folder):
    model = open_model(str(model_folder))
    drawn = []
    for _ in range(2):
        encoder = load_encoder(model, "random-init", 3)
        shape_layers(encoder, model, 1, 0, 3)
        drawn.append(encoder.state_dict())
    assert model.config.num_hidden_layers == 2
    assert all(torch.equal(drawn[0][name], drawn[1][name]) for name in drawn[0] | drawn[1])


@pytest.fixture
def batch(model_folder):
    ids = torch.tensor([[2, 5, 6, 7, 3], [2, 8, 9, 3, 0]])
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


def test_layers_are_kept_mixed_and_drawn_anew(model_folder, batch):
    model = open_model(str(model_folder))
    inputs = ("input_ids", "attention_mask")

    def shaped(kept, redrawn, seed=1):
        encoder = load_encoder(model, "pretrained", 0).eval()
        shape_layers(encoder, model, kept, redrawn, seed)
        return encoder

    whole = load_encoder(model, "pretrained", 0).eval()
    states = whole(**batch, output_hidden_states=True).hidden_states
    assert torch.equal(encode(shaped(None, 0), batch, inputs), states[-1])
    assert torch.equal(encode(shaped(1, 0), batch, inputs), states[1])
    mean = encode(whole, batch, inputs, "mean")
    torch.testing.assert_close(mean, (states[1] + states[2]) / 2)
    fresh = load_encoder(model, "random-init", 1)
    for name, weights in shaped(None, 1).state_dict().items():
        source = fresh if "layer.1." in name else whole
        assert torch.equal(weights, source.state_dict()[name]), name
    for kept, redrawn in ((3, 0), (None, 3), (1, 2)):
        with pytest.raises(ValueError, match="has 2 layers"):
            shaped(kept, redrawn)


def test_batch_norm_takes_away_what_all_texts_share(model_folder, batch):
    generator = torch.Generator().manual_seed(0)
    encoder = load_encoder(open_model(str(model_folder)), "pretrained", 0)
    head = LinearHead(encoder, 3, generator, "mean").eval()
    head.adapt("batch", "glorot", generator)
    limit = (6 / (32 + 3)) ** 0.5  # Glorot and Bengio 2010, equation 16
    assert 0.9 * limit < head.linear.weight.abs().max() <= limit
    head.norm.train()
    states = torch.randn(2, 5, 32, generator=generator)
    first, shifted = (head(given, batch)["logits"] for given in (states, states + 100.0))
    torch.testing.assert_close(first, shifted, atol=1e-3, rtol=1e-3)
    head.norm.reset_running_stats()
    head(states + 100.0, batch)
    head.norm.eval()  # after one batch it predicts as it learnt, but for the sample's variance
    again = head(states + 100.0, batch)["logits"]
    assert (again - shifted).abs().max() < 1.0
    head.norm.train()
    one = {name: rows[:1] for name, rows in batch.items()}
    assert torch.isfinite(head(states[:1], one)["logits"]).all()
