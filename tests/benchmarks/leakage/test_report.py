"""Scores without the rows that stand in a run's documents, and what the report says of them."""

import json
from pathlib import Path

import pytest

from benchmarks.leakage.examples import write_items
from benchmarks.leakage.report import leakage_rows
from benchmarks.leakage.scores import scores_without
from benchmarks.report.report import report
from benchmarks.results.predictions import score_lines
from benchmarks.results.results import RESULTS, append_result, percent
from benchmarks.results.run_folder import read_run
from benchmarks.tasks.klue import YNAT
from electrify.stage.folder import Stage, write_json, write_text
from electrify.stage.leakage_report import (
    LEAKAGE,
    MISSING,
    REPORT,
    Chance,
    HoldingDocument,
    LeakageReport,
    SplitLeakage,
    TaskLeakage,
    TouchedLine,
    read_report,
    read_touched,
    touched_path,
)
from electrify.stage.run import run_stage
from tests.benchmarks.conftest import make_result, put_predictions, text_of

NUM_ROWS = 60
TOUCHED = {f"dev-{number}" for number in range(0, NUM_ROWS, 5)}
POSSIBLE = {"dev-1", "dev-2"}
DATA = {"ynat/dev.json": "0" * 64}
HOSTILE = "<script>alert('x')</script> \u202e| `a` **b** \x00 끝"
RULES = {
    "min_letters": {"wide": 8, "narrow": 12},
    "alone_letters": {"wide": 12, "narrow": 24},
    "sure_letters": {"wide": 16, "narrow": 48},
    "run_letters": 50,
    "near_share": 0.85,
    "control_sentences": 200,
}


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


def _touched(identity: str, strength: str) -> TouchedLine:
    return TouchedLine(
        task=YNAT.name,
        split="dev",
        id=identity,
        strength=strength,
        text="title",
        kind="whole",
        share=1.0,
        example_share=1.0,
        document="01-7",
        source="<b>web</b>",
        documents=1,
        sources={"<b>web</b>": 1},
        wanted=HOSTILE,
        excerpt=f"before {HOSTILE} behind",
    )


def _write_leakage(folder: Path, touched: set[str], possible: set[str], data=DATA) -> None:
    split = SplitLeakage(
        split="dev",
        examples=NUM_ROWS,
        texts=NUM_ROWS,
        too_short=3,
        touched=len(touched),
        touched_by_half=len(touched),
        possible=len(possible),
        expected_touched=0.4,
        expected_found=1.2,
        kinds={"whole": len(touched)} if touched else {},
        found_texts={"title": len(touched)},
        sources={"<b>web</b>": len(touched)},
    )
    task = TaskLeakage(
        task=YNAT.name,
        task_version=YNAT.version,
        data_sha256=data,
        text_names=["title"],
        splits=[split],
        documents=[HoldingDocument(document="01-7", source="<b>web</b>", examples=len(touched))],
    )
    chance = Chance(
        script="wide",
        min_letters=8,
        sentences=200,
        touched=0,
        found=3,
        other_touched=0,
        other_found=2,
    )
    found = LeakageReport(
        rules=RULES, documents=1234, sources=2, tasks=[task], missing=["klue-nli"], chance=[chance]
    )

    def work(partial: Path) -> dict[str, int]:
        write_json(partial / REPORT, found.model_dump(mode="json"))
        lines = [_touched(one, "touched") for one in sorted(touched)]
        lines += [_touched(one, "possible") for one in sorted(possible)]
        if lines:
            text = "".join(f"{line.model_dump_json()}\n" for line in lines)
            write_text(touched_path(partial, YNAT.name), text)
        return {}

    run_stage(Stage("leakage", folder / LEAKAGE, {}, {"clean": "digest"}), work)


@pytest.fixture
def run(tmp_path):
    _write_evaluation(tmp_path)
    _write_leakage(tmp_path, TOUCHED, POSSIBLE)
    return tmp_path


def test_scores_without_touched_rows_are_those_of_the_other_lines(run):
    scores, notes = scores_without(read_run(run))
    assert notes == ()
    assert [score.model for score in scores] == ["pretrained", "random-init"]
    for score in scores:
        by_seed = [_lines(seed, score.model == "pretrained") for seed in (0, 1)]

        def mean(is_in, by_seed=by_seed):
            values = [
                score_lines(YNAT, [ln for ln in lines if is_in(ln["id"])])[YNAT.headline]
                for lines in by_seed
            ]
            return sum(values) / len(values)

        assert (score.num_touched, score.num_possible) == (len(TOUCHED), len(POSSIBLE))
        assert score.all.value == pytest.approx(mean(lambda _: True))
        for part, is_in in (
            (score.surely, lambda identity: identity not in TOUCHED),
            (score.strictly, lambda identity: identity not in TOUCHED | POSSIBLE),
            (score.touched, lambda identity: identity in TOUCHED),
        ):
            assert part is not None
            assert part.value == pytest.approx(mean(is_in))
            assert part.low <= part.value <= part.high
    assert scores[0].touched.value == 1.0
    assert scores[0].surely.value < scores[0].all.value


def test_the_report_shows_them_and_escapes_what_was_found(run):
    page = report([run]).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<b>web" not in page
    assert "&lt;script&gt;alert" in page
    markdown = text_of(page)
    assert "1,234 documents" in markdown
    start = "| klue-ynat | dev | 60 | 12 |"
    row = next(line for line in markdown.splitlines() if line.startswith(start))
    assert row.split(" | ")[2:8] == ["60", "12", "20", "12", "0.4", "2"]
    assert "12 of 60 rows are touched" in markdown
    assert "their data are missing: klue-nli" in markdown
    assert "8 of 14 rows" in markdown
    surely = scores_without(read_run(run))[0][0].surely
    (row,) = leakage_rows(read_run(run))
    assert list(row.values())[:3] == ["klue-ynat", "60", "12"]
    assert row["without the touched ones"] == percent(surely.value)


def test_a_run_of_which_nothing_was_looked_for_says_so(tmp_path):
    _write_evaluation(tmp_path)
    report([tmp_path])
    assert "electrify leakage CONFIG" in text_of(
        (tmp_path / "report.html").read_text(encoding="utf-8")
    )
    assert leakage_rows(read_run(tmp_path)) == []


def test_where_nothing_was_found_scores_are_the_same(tmp_path):
    _write_evaluation(tmp_path)
    _write_leakage(tmp_path, set(), set())
    assert scores_without(read_run(tmp_path)) == ((), ())
    report([tmp_path])
    assert "scores without touched rows are the same" in text_of(
        (tmp_path / "report.html").read_text("utf-8")
    )
    (row,) = leakage_rows(read_run(tmp_path))
    assert row["without the touched ones"] == "the same"


def test_scores_of_other_data_are_left_alone(tmp_path):
    _write_evaluation(tmp_path)
    _write_leakage(tmp_path, TOUCHED, set(), data={"dev.json": "1" * 64})
    scores, notes = scores_without(read_run(tmp_path))
    assert scores == ()
    assert notes == ("klue-ynat: scored on other data than were looked for",)
    report([tmp_path])
    assert "None of the scores is of rows" in (tmp_path / "report.html").read_text("utf-8")


def test_a_damaged_report_is_named(run):
    (run / LEAKAGE / REPORT).write_text('{"format_version": 2}')
    with pytest.raises(ValueError, match=r"report\.json is damaged .* electrify leakage CONFIG"):
        read_report(run / LEAKAGE)


def test_a_line_cut_in_half_is_named(run):
    path = touched_path(run / LEAKAGE, YNAT.name)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: len(text) // 3], encoding="utf-8")
    with pytest.raises(ValueError, match=r"touched-klue-ynat\.jsonl is damaged"):
        list(read_touched(run / LEAKAGE, YNAT.name))
    path.write_text("".join(text.splitlines(keepends=True)[:-3]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"names 11 rows of dev as found, .* counts 14"):
        report([run])
    path.unlink()
    with pytest.raises(ValueError, match=r"names 0 rows of dev"):
        report([run])


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


def test_bad_data_are_not_taken_for_missing(make_config, tmp_path):
    with pytest.raises(ValueError, match="no data: give --data-dir"):
        write_items(make_config(data_dir=None), tmp_path)
    with pytest.raises(ValueError, match=r"klue-nli-v1\.1_dev\.json"):
        write_items(make_config(tasks=["klue-nli"]), tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    (data / "ynat-v1.1_dev.json").write_text('[{"guid": "1", "title": "t"}]')
    with pytest.raises(ValueError, match="label"):
        write_items(make_config(data_dir=str(data)), tmp_path)
