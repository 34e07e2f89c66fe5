"""What is called better, worse and not to be told apart; and what is not compared."""

import itertools
import math
import random

import pytest

from benchmarks.results.results import append_result, differing, read_results
from benchmarks.results.run_folder import read_run
from benchmarks.sections.scores import terminal_lines
from benchmarks.statistics.comparison import (
    compare,
    compare_in_run,
    compare_runs,
    holm,
    verdict_sentence,
)
from benchmarks.statistics.scores import sample_of
from electrify.stage.folder import write_manifest
from tests.benchmarks.conftest import make_result, put_predictions
from tests.benchmarks.records import right_lines

NUM_EXAMPLES = 200


def result(role="pretrained", seed=0, value=0.5, **changes):
    fields = {"suite": "glue", "task": "glue-sst2", "task_version": "1.0", "metric": "accuracy"}
    fields |= {"role": role, "model_path": "x", "seed": seed, "value": value}
    return make_result(**{**fields, "num_examples": NUM_EXAMPLES, **changes})


def lines(num_right, seed):
    order = list(range(NUM_EXAMPLES))
    random.Random(seed).shuffle(order)  # each seed has others right
    return right_lines(place < num_right for place in order)


def sample(*values, **changes):
    return sample_of([result(seed=seed, value=v, **changes) for seed, v in enumerate(values)])


def write_evaluation(folder, stage="evaluate", num_right=150, with_lines=True, **changes):
    """Three seeds of an encoder, and of its untrained twin, which has half of the rows right and
    learns twice as much from a seed."""
    place = folder / stage
    place.mkdir(parents=True)
    write_manifest(place, {"files": {}, "inputs": {}, "config": {}, "digest": ""})
    sides = ("pretrained", num_right, 1), ("random-init", NUM_EXAMPLES // 2, 2)
    for role, of_first, of_seed in sides:
        for seed in range(3):
            right = of_first + of_seed * seed
            record = result(role, seed, right / NUM_EXAMPLES, **changes)
            append_result(place / "results.jsonl", record)
            if with_lines:
                put_predictions(place, record, lines(right, seed))
    return folder


def closed_bonferroni(p_values):
    """Holm by its definition: each hypothesis against every set that holds it."""
    indices = range(len(p_values))
    families = [family for n in indices for family in itertools.combinations(indices, n + 1)]
    of_family = {of: min(1.0, len(of) * min(p_values[j] for j in of)) for of in families}
    return [max(p for family, p in of_family.items() if i in family) for i in indices]


def test_holm_is_the_closed_test_of_bonferroni():
    generator = random.Random(5)
    for size in range(1, 7):
        p_values = [round(generator.random() ** 3, 2) for _ in range(size)]
        assert holm(p_values) == pytest.approx(closed_bonferroni(p_values))
    assert holm([]) == []
    assert holm([0.01, math.nan]) == holm([0.01, 1.0])


@pytest.mark.parametrize(
    ("a", "b", "gain", "verdict"),
    [
        ((0.80, 0.81, 0.82), (0.51, 0.50, 0.52), 0.3, "better"),
        ((0.51, 0.50, 0.52), (0.80, 0.81, 0.82), -0.3, "worse"),
        ((0.5, 0.7, 0.6), (0.6, 0.8, 0.5), -1 / 30, "no significant difference"),
        # ranges apart, yet two seeds each: one degree of freedom
        ((0.80, 0.90), (0.60, 0.50), 0.3, "no significant difference"),
        ((0.9,), (0.1,), 0.8, "no significant difference: fewer than two seeds"),
        ((0.9, 0.8), (0.1,), 0.75, "no significant difference: fewer than two seeds"),
        ((0.9, math.nan), (0.1, 0.2), math.nan, "no significant difference: undefined scores"),
        ((0.9, 0.8), (), None, "nothing to compare with"),
        ((), (0.9, 0.8), None, "not scored"),
        ((0.5, 0.5), (0.5, 0.5), 0.0, "no significant difference"),
        ((0.7, 0.7), (0.5, 0.5), 0.2, "better"),
    ],
)
def test_outcomes_of_seeds_alone(a, b, gain, verdict):
    found = compare(sample(*a), sample(*b))
    value = found.difference and found.difference.value
    assert value == (gain if gain is None else pytest.approx(gain, abs=1e-9, nan_ok=True))
    assert found.verdict == verdict


@pytest.mark.parametrize(
    "changes",
    [
        {"task_version": "1.1", "data_sha256": {"dev.tsv": "b"}},
        {"split": "dev-split-eval"},
        {"num_examples": 100},
        {"data_sha256": {"dev.tsv": "b"}},
        {"metric": "mcc"},
    ],
)
def test_other_data_are_not_compared(changes):
    assert differing(result(), result(**changes)) == next(iter(changes)).replace("_", " ")
    assert differing(result(), result(seed=3, value=0.1)) == ""
    # equal rows, taken from an archive of another version
    assert differing(result(), result(task_version="1.1")) == ""
    own = {"own_task": {"kind": "classification"}}
    assert differing(result(**own), result(**own, task_version="b")) == "task version"


@pytest.mark.parametrize(
    ("num_right", "start"),
    [
        (150, "better: +24.50 over random initialisation (95 % CI "),
        (50, "worse: -25.50 over random initialisation (95 % CI "),
        (102, "no significant difference: +0.50 over random initialisation (95 % CI "),
        (101, "no significant difference: +0.00 over random initialisation (95 % CI "),
    ],
)
def test_the_last_table_says_what_its_numbers_mean(tmp_path, num_right, start):
    """In the words and by the interval of the report."""
    folder = write_evaluation(tmp_path, num_right=num_right, model_path="/models/drawn-at-random")
    place = folder / "evaluate"
    *table, sentence = terminal_lines(read_results(place / "results.jsonl"), place)
    task, _, verdict = sentence.partition(": ")
    assert (task, verdict[: len(start)]) == ("glue-sst2", start)
    [against] = compare_in_run(read_run(folder))
    assert verdict == verdict_sentence(against)
    found = against.comparison.difference
    assert f"95 % CI {100 * found.low:.2f} to {100 * found.high:.2f}, p " in verdict
    assert [line.split()[2:4] for line in table[1:]] == [
        ["drawn-at-random", f"{100 * num_right / NUM_EXAMPLES + 0.5:.2f}"],
        ["random", "initialisation"],
    ]
    assert "pretrained" not in "".join(table)


@pytest.fixture
def runs(tmp_path):
    first = write_evaluation(tmp_path / "a")
    write_evaluation(first, "evaluate-bert", 130)
    write_evaluation(first, "evaluate-mbert", 147)
    second = write_evaluation(tmp_path / "b", num_right=180)
    return [read_run(first), read_run(second)]


def test_encoders_of_a_run_against_random_initialisation_and_the_own_against_others(runs):
    own, other, _, beside, another = compare_in_run(runs[0])
    found = own.baseline, own.score.stage, own.comparison.outcome
    assert found == ("random initialisation", "evaluate", "better")
    assert other.score.label == "glue-sst2 (bert)"
    assert (beside.score.stage, beside.baseline) == ("evaluate", "bert")
    assert beside.comparison.difference.value == pytest.approx(0.1)
    for family in ([own], [other], [beside, another]):
        p_corrected = holm([against.comparison.difference.p for against in family])
        assert [a.comparison.p_corrected for a in family] == pytest.approx(p_corrected)
    assert beside.comparison.p_corrected > beside.comparison.difference.p


def test_runs_against_the_first(tmp_path, runs):
    """One that cannot be compared on a task is named with the reason."""
    [found] = compare_runs(runs)
    assert (found.run, found.baseline, found.comparison.outcome) == ("b", "a", "better")
    assert found.comparison.difference.value == pytest.approx(0.15)
    [back] = compare_runs(runs[::-1])
    assert (back.run, back.comparison.difference.value) == ("a", pytest.approx(-0.15))
    metric = {"metric": "f1", "metrics": {"f1": 0.5}}
    other = write_evaluation(tmp_path / "c", with_lines=False, **metric)
    [found] = compare_runs([runs[1], read_run(other)])
    assert (found.run, found.comparison.verdict) == ("c", "not comparable: metric differs")


def test_a_task_of_ones_own_with_a_note_is_compared_whatever_else_a_run_has_scored(tmp_path):
    fields = {"labels": ["0", "1"], "text_fields": ["text"], "label_field": "label"}
    own = {"kind": "classification", "headline": "accuracy", "name": "mine", "version": "1"}
    changes = {"task": "mine", "own_task": {**own, **fields, "reported": "dev", "note": "made up"}}
    first = write_evaluation(tmp_path / "a", with_lines=False, **changes)
    second = write_evaluation(tmp_path / "b", num_right=180, with_lines=False, **changes)
    write_evaluation(second, "evaluate-bert", with_lines=False, **changes)
    [found] = compare_runs([read_run(first), read_run(second)])
    assert found.score.stage == "evaluate"
    assert found.comparison.difference.value == pytest.approx(0.15)
