"""Records of anyone on one page: who is ranked against whom, and what is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report.board import write_board
from benchmarks.report.published import protocol_differences
from benchmarks.results.results import append_result
from benchmarks.training.recipe import recipe_for
from tests.benchmarks.conftest import make_result, put_predictions, text_of
from tests.benchmarks.records import NLI, SST2
from tests.benchmarks.report.test_report import cells, make_run

NUM_EXAMPLES = 50
Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write the records of an encoder that has so many examples right, and one more a seed."""

    def put_records(name: str, right: int, has_lines: bool = True, **changes: Any) -> Path:
        place = tmp_path / "out" / name
        place.mkdir(parents=True, exist_ok=True)
        for seed in range(2):
            count = right + seed
            lines = [
                {"id": f"dev-{n}", "gold": "1", "prediction": str(int(n < count))}
                for n in range(NUM_EXAMPLES)
            ]
            fields = {"suite": "glue", "task": "glue-sst2", "task_version": SST2.version}
            fields |= {"metric": "accuracy", "num_examples": NUM_EXAMPLES, "model_path": name}
            settings = recipe_for(SST2, 256).record(500)
            fields |= {"seed": seed, "value": count / NUM_EXAMPLES, "hyper_parameters": settings}
            record = make_result(**fields | changes)
            append_result(place / "results.jsonl", record)
            if has_lines:
                put_predictions(place, record, lines)
        return place

    return put_records


def shown(*places: Path) -> str:
    return text_of(write_board(places).read_text(encoding="utf-8"))


def test_encoders_on_the_same_rows_by_one_recipe_are_ranked(put: Put):
    base = recipe_for(SST2, 768).record(500)  # has rates of its own for that size
    assert base["learning_rate"] != recipe_for(SST2, 256).learning_rate
    places = put("a", 30), put("b", 40, hyper_parameters=base, num_parameters=110_000_000)
    text = shown(*places)
    header, first, second = cells(text, "")[:2], cells(text, "b"), cells(text, "a")
    assert header[0].startswith("rank")
    assert first[1:3] == ["1 (1–1) mean 81.0", "81.0 ± 1.4 rank 1 (1–1)"]
    assert second[1:3] == ["2 (2–2) mean 61.0", "61.0 ± 1.4 rank 2 (2–2)"]
    assert first[3:] == ["110M", "–", "–", "–", "25 s"]
    assert "over examples and seeds: glue-sst2." in text
    assert "Not ranked" not in text
    page = (places[0].parent / "board.html").read_text(encoding="utf-8")
    assert '<tr data-group="80 M to 200 M">' in page
    assert '<tr data-group="not known">' in page


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"data_sha256": {"dev.json": "01"}}, "other data sha256"),
        ({"num_examples": NUM_EXAMPLES - 1}, "another num examples"),
        ({"metric": "f1"}, "another metric"),
        (
            {"hyper_parameters": {**recipe_for(SST2, 256).record(500), "num_epochs": 9.0}},
            "num epochs of the recipe and 9.0",
        ),
        ({"train_fraction": 0.1}, "fraction of the training rows 1.0 and 0.1"),
    ],
)
def test_others_are_named_and_not_ranked(put: Put, changes: dict[str, Any], why: str):
    text = shown(put("a", 30), put("b", 40, False, **changes), put("c", 20))
    assert cells(text, "a")[2].endswith("rank 1 (1–1)")
    assert cells(text, "b")[1:3] == ["–", "81.0 ± 1.4"]
    assert f"| glue-sst2 | b | not comparable with a: {why} |" in text


def test_a_search_is_a_protocol_whatever_it_chose():
    def searched(rate: float, trials: int, **rounds: float) -> Any:
        settings = {"recipe": "klue", "learning_rate": rate}
        search = {"best": f"trial 2 of {trials} (learning_rate {rate})"} | rounds
        return make_result(hyper_parameters=settings, search=search, task=NLI.name)

    assert protocol_differences(searched(1e-4, 4), searched(5e-4, 4)) == []
    (found,) = protocol_differences(searched(1e-4, 4), searched(5e-4, 8))
    assert found == "trials of the search 4 and 8"
    (found,) = protocol_differences(searched(1e-4, 4), searched(1e-4, 4, fraction_of_steps=0.5))
    assert found == "steps of its trials 1.0 and 0.5"


def test_what_lacks_is_said(put: Put):
    fields = {"task": "glue-cola", "task_version": "1.0", "metric": "mcc"}
    a, b, c = put("a", 30), put("b", 40), put("c", 20, has_lines=False)
    for name in ("a", "b"):
        put(name, 10, False, **fields)
    text = shown(a, b, c)
    assert "| mean of tasks | c | not scored on glue-cola |" in text
    # one lacks predictions: no encoder's examples are resampled
    assert "over seeds: glue-sst2, glue-cola." in text
    assert "c: no predictions of c, seed 0." in text
    assert cells(text, "c")[1] == "–"


def test_tf_idf_has_one_row_where_it_is_the_same_and_else_one_for_each_encoder(put: Put):
    cola = {"task": "glue-cola", "task_version": "1.0", "metric": "mcc"}
    places = put("a", 30), put("b", 40, False, **cola)
    put("a", 20, False, role="bag-of-words")
    put("b", 10, False, role="bag-of-words", **cola)
    text = shown(*places)
    assert cells(text, "TF-IDF")[2:4] == ["41.0 ± 1.4", "21.0 ± 1.4"]
    other = {"num_examples": NUM_EXAMPLES - 1, "has_lines": False}
    put("c", 25, role="bag-of-words", **other)
    text = shown(*places, put("c", 40, **other))
    rows = [cells(text, f"{name}, TF-IDF")[2:4] for name in "abc"]
    assert rows == [["41.0 ± 1.4", "–"], ["–", "21.0 ± 1.4"], ["51.0 ± 1.4", "–"]]
    assert "accuracy, 49 to 50 rows" in text


def test_encoders_of_one_name_are_told_apart(put: Put):
    for run, right in (("x", 30), ("y", 40)):
        put(f"{run}/evaluate", right - 5, num_parameters=9_000_000)
        put(f"{run}/evaluate-roberta", right, num_parameters=68_000_000)
    out = put("z", 20).parent
    text = shown(out / "x", out / "y", out / "z")
    for run, rank in (("x", "3"), ("y", "1")):
        assert cells(text, f"{run}, roberta")[1].startswith(rank)
    assert cells(text, "y")[1].startswith("2")
    page = (out / "board.html").read_text(encoding="utf-8")
    assert page.count('<tr data-group="20 M to 80 M">') == 2


def test_folders_of_one_name_have_the_end_of_their_path_that_tells_them_apart(put: Put):
    runs = [put(name, 30) for name in ("p/x/seed-0", "p/y/seed-0", "q/y/seed-0", "z")]
    text = shown(*runs)
    for name in ("x/seed-0", "p/y/seed-0", "q/y/seed-0", "z"):
        assert cells(text, name)[1].startswith("1")


def test_a_run_has_what_its_pretraining_took(tmp_path: Path):
    run = make_run(tmp_path / "out" / "ko-demo")
    (tmp_path / "out" / "empty").mkdir()
    shutil.copytree(run, tmp_path / "out" / "grid" / "variant")  # runs of a grid are no place
    (run / "evaluate").rename(run / "evaluate.partial")
    (tmp_path / "out" / "notes.txt").write_text("no records")
    text = shown(*sorted((tmp_path / "out").iterdir()), run / "evaluate.partial" / "results.jsonl")
    parameters, tokens, flops, cost, _ = cells(text, "ko-demo")[-5:]
    assert (parameters, tokens, flops) == ("1.235M", "614.4k", "2.46T")
    assert cost == "2 min CPU, 2 threads"
    assert "ko-demo: its evaluation is not finished" in text
    assert cells(text, "evaluate.partial")[-5:-1] == ["–"] * 4  # the same records, from elsewhere
    assert "Grey: random initialisation" in text
    assert cells(text, "ko-demo, random initialisation")


def test_a_place_without_records_is_no_board(put: Put):
    place = put("a", 30)
    (place / "results.jsonl").write_text("")
    with pytest.raises(ValueError, match="no records in"):
        write_board([place])


def test_a_value_that_its_predictions_do_not_give_is_refused(put: Put):
    place = put("a", 30, value=0.99, metrics={"accuracy": 0.99})
    with pytest.raises(ValueError, match=r"accuracy 0\.99 written, 0\.6 computed"):
        write_board([place])
