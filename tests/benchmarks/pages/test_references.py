import itertools
import json
from pathlib import Path

import pytest

from benchmarks.pages.references import (
    FOLDER,
    published,
    published_costs,
    published_scores,
)


@pytest.mark.parametrize("number", range(len(published()["glue-dev"].tables[0].rows)))
def test_printed_glue_averages_are_means_of_the_printed_scores(number):
    """A slip in copying would show; what does not agree in print says so."""
    row = published()["glue-dev"].tables[0].rows[number]
    *tasks, average = row.values
    if average is not None and "printed 79.2" not in (row.caution or ""):
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
            key = score.model, score.source.name
            by_model.setdefault(key, {})[score.column.metric] = score.value
        pairs = [v for v in by_model.values() if len(v) == 2]
        assert len(pairs) > 3
        assert all(pair["f1"] > pair[exact] for pair in pairs)


def test_the_paper_needs_more_flops_for_more_steps():
    on_the_way = [c for c in published_costs() if c.series == "ELECTRA-Small on the way"]
    flops = [c.train_flops or 0 for c in on_the_way]
    assert flops == sorted(flops)
    for first, second in itertools.pairwise(flops):  # half the steps, half the FLOPs
        assert second / first == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("tables", 0, "columns", 0, "task"), "glue-colla", "unknown task 'glue-colla'"),
        (("tables", 0, "columns", 0, "metric"), "f3", "glue-cola has no metric 'f3'"),
        (("tables", 0, "columns", 0, "split"), "train", "split"),
        (("tables", 0, "rows", 0, "values"), [69.1], "has 1 values for 9 columns"),
        (("tables", 0, "rows", 0, "source", "url"), "http://x", "url"),
        (("tables", 0, "rows", 0, "protocol"), "", "protocol"),
        (("new",), 1, "new: Extra inputs"),
    ],
)
def test_what_is_unknown_is_refused(tmp_path, place, value, message):
    content = json.loads((FOLDER / "glue-dev.json").read_text(encoding="utf-8"))
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    Path(tmp_path, "changed.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        published(tmp_path)
