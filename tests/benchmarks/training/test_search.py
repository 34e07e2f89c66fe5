"""What a search tries, on which rows, and which of them is the best."""

import math

from benchmarks.tasks.load import load_data
from benchmarks.training.search import best_of, grid, held_out_data
from electrify.config.evaluate import SearchOptions
from tests.benchmarks.records import COLA, MRPC, NER, YNAT


def test_every_combination_that_the_head_takes_is_tried():
    search = SearchOptions(learning_rate=(1e-4, 1e-3), pooling=("cls", "parts"))
    assert len(grid(search, MRPC)) == 4
    assert {tried["pooling"] for tried in grid(search, COLA)} == {"cls"}  # one text
    assert grid(search, NER) == [{"learning_rate": 1e-4}, {"learning_rate": 1e-3}]
    assert grid(SearchOptions(pooling=("mean",)), NER) == grid(None, YNAT) == []


def test_rows_to_score_are_not_learnt_from(ynat_folder):
    data = load_data(YNAT, ynat_folder)
    part = held_out_data(YNAT, data, range(100), 0.2)
    assert {*part.train, *part.reported} == {*data.train[:100]}
    assert not {row.texts[0] for row in part.train} & {row.texts[0] for row in part.reported}


def test_the_first_of_the_best_wins_and_failures_come_last():
    def trials(*values):
        return [{"value": v, "degenerate": None} for v in values]

    assert best_of(trials(0.1, 0.3, 0.3, math.nan), True) == 1
    assert best_of(trials(math.nan, 0.3, 0.2), False) == 2
    failed = {"value": 0.9, "degenerate": "constant"}
    assert best_of([failed, *trials(0.1)], True) == 1
