"""Parts of the training split: nested, seeded, with every class."""

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.evaluate import evaluate, score_table
from benchmarks.finetune.finetune import low_shot_rows
from benchmarks.finetune.jobs import plan_jobs
from benchmarks.results.predictions import prediction_path, read_predictions
from benchmarks.results.rescore import rescore
from benchmarks.results.results import largest_part, read_results
from benchmarks.tasks.kinds.classification import LabelExample
from benchmarks.tasks.kinds.spans_features import GoldAnswer, QuestionExample
from benchmarks.tasks.registry import resolve_tasks
from benchmarks.tasks.task import Example
from electrify.stage.plan import evaluate_stage

FRACTIONS = (0.01, 0.1, 0.3, 0.9, 1.0)


def labelled(labels) -> list[Example]:
    return [LabelExample(str(n), (f"text {n}",), label) for n, label in enumerate(labels)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.integers(0, 9))
def test_smaller_parts_stand_inside_larger_ones(labels, seed):
    examples, everything = labelled(labels), np.arange(len(labels))
    parts = [
        set(low_shot_rows(examples, everything, everything, fraction, seed).tolist())
        for fraction in FRACTIONS
    ]
    for smaller, larger in itertools.pairwise(parts):
        assert smaller <= larger
    assert parts[-1] == set(everything.tolist())
    counts = Counter(labels)
    for fraction, part in zip(FRACTIONS, parts, strict=True):
        of_class = Counter(labels[number] for number in part)
        assert of_class.keys() == counts.keys()
        for label, number in of_class.items():
            assert abs(number - max(1, fraction * counts[label])) <= 0.5


def test_rows_of_one_example_stay_together():
    """Both orders of a pair, all windows of a context."""
    example_of = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 5])
    examples = labelled([0, 1, 0, 1, 0, 1])
    rows = low_shot_rows(examples, example_of, np.arange(10), 0.4, seed=1)
    chosen = set(example_of[rows].tolist())
    assert len(chosen) == 2
    assert rows.tolist() == [row for row in range(10) if example_of[row] in chosen]


def test_questions_without_answers_have_their_share():
    answer = (GoldAnswer("a", 0),)
    examples = [
        QuestionExample(str(n), ("a context", "why"), answers=() if n % 4 == 0 else answer)
        for n in range(80)
    ]
    rows = low_shot_rows(examples, np.arange(80), np.arange(80), 0.1, seed=0)
    assert Counter(bool(examples[row].answers) for row in rows) == {True: 6, False: 2}


def test_the_seed_decides():
    examples, rows = labelled([0] * 100), np.arange(100)
    parts = [low_shot_rows(examples, rows, rows, 0.1, seed).tolist() for seed in (0, 0, 1)]
    assert parts[0] == parts[1] != parts[2]


@pytest.fixture
def evaluated(make_config, model_folder):
    config = make_config(train_fractions=[0.1, 1.0], seeds=[0, 1], num_epochs=1, min_steps=3)
    evaluate(config, str(model_folder), overwrite=False)
    (folder,) = Path(config.output_dir).glob("evaluate-*")
    return folder


def test_every_part_is_a_job_with_predictions_of_its_own(evaluated, capsys):
    results = read_results(evaluated / "results.jsonl")
    found = [(r.train_fraction, r.seed, r.num_train_examples) for r in results]
    assert found == [(1.0, 0, 140), (1.0, 1, 140), (0.1, 0, 14), (0.1, 1, 14)]
    assert [r.hyper_parameters["num_steps"] for r in results] == [10, 10, 3, 3]
    for record in results:
        path = prediction_path(
            evaluated, "klue-ynat", "pretrained", record.seed, "", record.train_fraction
        )
        header, _ = read_predictions(path)
        assert header["train_fraction"] == record.train_fraction
    assert (evaluated / "predictions/klue-ynat/train-0.1/pretrained-1.jsonl").is_file()
    assert rescore(evaluated) == 0
    assert capsys.readouterr().out.endswith("0 differ\n")


def test_the_headline_is_of_the_largest_part(evaluated):
    results = read_results(evaluated / "results.jsonl")
    assert [r.train_fraction for r in largest_part(results)] == [1.0, 1.0]
    assert score_table(results, evaluated) == score_table(results[:2], evaluated)


def test_parts_come_after_the_whole(make_config):
    options = make_config(train_fractions=[0.1, 1.0, 0.1], random_init_control=True).evaluate
    jobs = plan_jobs(options, resolve_tasks([], ["klue-ynat"]), "out/demo/bert")
    assert [(job.variant, job.train_fraction) for job in jobs] == [
        ("pretrained", 1.0),
        ("random-init", 1.0),
        ("pretrained", 0.1),
        ("random-init", 0.1),
    ]
    assert jobs[2].label == "klue-ynat, bert, seed 0 on 10 %"


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_a_share_is_between_nothing_and_everything(make_config, value):
    with pytest.raises(ValueError, match="train_fractions"):
        make_config(train_fractions=[value])


def test_evaluations_of_before_parts_were_an_option_stay_done(make_config):
    def options(**changes):
        config = make_config(**changes)
        return dict(evaluate_stage(config, str(Path("tests")), {}).config)

    before = options(tasks_options={"klue-ynat": {"num_epochs": 1.0}})
    assert not {"train_fractions", "min_steps"} & before.keys()
    assert "min_steps" not in before["tasks_options"]["klue-ynat"]
    now = options(train_fractions=[0.1, 1.0], min_steps=5)
    assert (now["train_fractions"], now["min_steps"]) == ([0.1, 1.0], 5)


def test_records_of_before_parts_and_costs_are_read(evaluated):
    path = evaluated / "results.jsonl"
    added = (
        "train_fraction",
        "train_seconds",
        "train_flops",
        "inference_flops",
        "peak_memory_mb",
        "device",
    )
    later = {*added, "sha256"}  # of the line itself
    record = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({k: v for k, v in record.items() if k not in later}) + "\n")
    (result,) = read_results(path)
    assert [getattr(result, name) for name in added] == [1.0, *[None] * 5]
