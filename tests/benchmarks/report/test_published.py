import pytest

from benchmarks.report.published import published, published_scores
from benchmarks.tasks.registry import TASKS


@pytest.mark.parametrize("number", range(len(published()["glue-dev"]["tables"][0]["rows"])))
def test_printed_glue_averages_are_means_of_the_printed_scores(number):
    """A slip in copying would show; what does not agree in print says so."""
    row = published()["glue-dev"]["tables"][0]["rows"][number]
    *tasks, average = row["values"]
    if average is not None and "printed 79.2" not in row.get("caution", ""):
        assert sum(v for v in tasks if v is not None) / 8 == pytest.approx(average, abs=0.06)


def test_f1_is_not_below_exact_match():
    """Of SQuAD and KorQuAD: swapped columns would show."""
    for task, exact in (
        ("squad-1.1", "exact_match"),
        ("squad-2.0", "exact"),
        ("korean-korquad", "exact_match"),
    ):
        by_model: dict[tuple[str, str], dict[str, float]] = {}
        for score in published_scores(task):
            key = score.model, score.source
            by_model.setdefault(key, {})[score.metric] = score.value
        pairs = [v for v in by_model.values() if len(v) == 2]
        assert len(pairs) > 3
        assert all(pair["f1"] > pair[exact] for pair in pairs)


@pytest.mark.parametrize("name", published())
def test_every_figure_has_a_known_task_and_metric_a_protocol_and_a_source(name):
    file = published()[name]
    for table in file["tables"]:
        for column in table["columns"]:
            assert column["split"] in ("dev", "test", "not stated")
            if column["task"] != "glue-average":
                task = TASKS[column["task"]]
                metrics = task.score([])
                further = {f"{split}_{name}" for split in task.also_reported for name in metrics}
                assert column["metric"] in {*metrics, *further}
        for row in table["rows"]:
            assert len(row["values"]) == len(table["columns"])
            assert row["protocol"]
    for entry in [
        *file.get("costs", ()),
        *(row for table in file["tables"] for row in table["rows"]),
    ]:
        assert entry["model"]
        assert entry["source"]["name"]
        assert entry["source"]["url"].startswith("https://")
    for cost in file.get("costs", ()):
        assert cost["convention"] == "paper"
        assert cost.get("train_flops", 1) > 0
