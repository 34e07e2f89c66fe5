"""Scores without the rows that stand in a run's documents, and what the report says of them."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.leakage.examples import write_items
from benchmarks.leakage.report import leakage_rows, scores_without
from benchmarks.report.report import read_runs, report
from benchmarks.results.predictions import score_lines
from benchmarks.results.results import RESULTS, append_result, percent
from benchmarks.results.run_folder import read_run
from electrify.stage.folder import Stage, write_json, write_text
from electrify.stage.leakage_report import (
    LEAKAGE,
    MISSING,
    REPORT,
    LeakageReport,
    SplitLeakage,
    TaskLeakage,
    TouchedLine,
    touched_path,
)
from electrify.stage.run import run_stage
from tests.benchmarks.conftest import make_result, put_predictions, text_of
from tests.benchmarks.records import YNAT

NUM_ROWS = 60
TOUCHED = {f"dev-{number}" for number in range(0, NUM_ROWS, 5)}
DATA = {"train": "1" * 64, "dev": "0" * 64}


def _lines(seed: int, is_pretrained: bool) -> list[dict[str, object]]:
    """Touched rows are all right for the pretrained network, others by turns."""
    labels, lines = YNAT.labels, []
    for number in range(NUM_ROWS):
        name = f"dev-{number}"
        right = (number + seed) % 3 > 0 or (is_pretrained and name in TOUCHED)
        gold, given = labels[number % 7], labels[(number + (not right)) % 7]
        lines.append({"id": name, "gold": gold, "prediction": given, "probabilities": [1 / 7] * 7})
    return lines


def _write_evaluation(folder: Path) -> None:
    def work(partial: Path) -> dict[str, int]:
        for variant in ("pretrained", "random-init"):
            for seed in (0, 1):
                lines = _lines(seed, variant == "pretrained")
                metrics = score_lines(YNAT, lines)
                fields = {"role": variant, "seed": seed, "value": metrics[YNAT.headline]}
                fields |= {"metrics": metrics, "num_examples": NUM_ROWS, "data_sha256": DATA}
                result = make_result(**fields)
                put_predictions(partial, result, lines)
                append_result(partial / RESULTS, result)
        return {}

    run_stage(Stage("evaluate", folder / "evaluate", {}), work)


def _touched(identity: str) -> TouchedLine:
    return TouchedLine(
        split="dev",
        id=identity,
        text="title",
        kind="sentence",
        fraction=1.0,
        document="01-7",
        source="web",
        documents=1,
        wanted="제목",
        excerpt="앞 제목 뒤",
    )


def _write_leakage(folder: Path, touched: set[str], data=DATA) -> None:
    split = SplitLeakage(
        split="dev", examples=NUM_ROWS, texts=NUM_ROWS, too_short=3, touched=len(touched)
    )
    task = TaskLeakage(task=YNAT.name, task_version=YNAT.version, data_sha256=data, splits=[split])
    found = LeakageReport(
        rules={"run_letters": 50}, documents=1234, tasks=[task], missing=["klue-nli"]
    )

    def work(partial: Path) -> dict[str, int]:
        write_json(partial / REPORT, found.model_dump(mode="json"))
        if touched:
            lines = [_touched(one).model_dump_json() for one in sorted(touched)]
            write_text(touched_path(partial, YNAT.name), "".join(f"{line}\n" for line in lines))
        return {}

    run_stage(Stage("leakage", folder / LEAKAGE, {}, {"clean": "digest"}), work)


@pytest.fixture
def run(tmp_path):
    _write_evaluation(tmp_path)
    _write_leakage(tmp_path, TOUCHED)
    return tmp_path


def test_scores_without_touched_rows_are_those_of_the_other_lines(run):
    scores, notes = scores_without(read_run(run))
    assert notes == ()
    assert [score.role for score in scores] == ["pretrained", "random-init"]
    for score in scores:
        by_seed = [_lines(seed, score.role == "pretrained") for seed in (0, 1)]

        def mean(is_in, by_seed=by_seed):
            values = [
                score_lines(YNAT, [ln for ln in lines if is_in(ln["id"])])[YNAT.headline]
                for lines in by_seed
            ]
            return sum(values) / len(values)

        assert score.num_touched == len(TOUCHED)
        whole = score.score.by_role[score.role].estimate.value
        assert whole == pytest.approx(mean(lambda _: True))
        for part, is_in in (
            (score.without, lambda identity: identity not in TOUCHED),
            (score.touched, lambda identity: identity in TOUCHED),
        ):
            assert part is not None
            assert part.value == pytest.approx(mean(is_in))
            assert part.low <= part.value <= part.high
    assert scores[0].touched.value == 1.0
    assert scores[0].without.value < scores[0].score.pretrained.estimate.value


@pytest.mark.parametrize(("other", "num_notes"), [("train", 0), ("dev", 1)])
def test_the_reported_rows_have_to_be_those_searched_for(tmp_path, other, num_notes):
    """Of a score with `evaluate.limit` others were learnt from."""
    _write_evaluation(tmp_path)
    _write_leakage(tmp_path, TOUCHED, DATA | {other: "2" * 64})
    scores, notes = scores_without(read_run(tmp_path))
    assert (len(notes), not scores) == (num_notes, bool(num_notes))


def test_the_report_and_the_card_show_them(run):
    markdown = text_of(report(read_runs([run])).read_text(encoding="utf-8"))
    assert "1,234 documents" in markdown
    assert "| klue-ynat | dev | 60 | 12 | 20 |" in markdown
    assert "12 of 60 rows are touched" in markdown
    assert "their data are missing: klue-nli" in markdown
    without = scores_without(read_run(run))[0][0].without
    (row,) = leakage_rows(read_run(run))
    assert list(row.values())[:3] == ["klue-ynat", "60", "12"]
    assert row["without the touched ones"] == percent(without.value)
    other = shutil.copytree(run, run.with_name("other"))  # whose scores are equal
    assert "klue-ynat" in text_of(report(read_runs([run, other])).read_text(encoding="utf-8"))


def test_items_are_the_reported_rows_with_the_ids_of_predictions(make_config, tmp_path):
    config = make_config(tasks=["klue-ynat", "klue-nli"])
    items = tmp_path / "items"
    items.mkdir()
    write_items(config, items)
    assert sorted(path.name for path in items.iterdir()) == ["klue-ynat.jsonl", MISSING]
    assert json.loads((items / MISSING).read_text()) == ["klue-nli"]
    header, *rows = map(json.loads, (items / "klue-ynat.jsonl").read_text("utf-8").splitlines())
    assert header["header"]["task"] == "klue-ynat"
    assert header["header"]["text_names"] == ["title"]
    assert [row["id"] for row in rows] == [f"dev-{number}" for number in range(42)]
    assert {row["split"] for row in rows} == {"dev-part"}
