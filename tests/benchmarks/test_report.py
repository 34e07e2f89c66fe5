import json
import math
import shutil
import statistics
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from benchmarks.report import Summary, read_runs, report, scores_for_programs
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder, read_run
from benchmarks.sections.scores import EncoderScores
from benchmarks.statistics.comparison import ComparedScore, Comparison
from benchmarks.statistics.scores import task_scores
from benchmarks.statistics.uncertainty import Interval
from electrify.config.load import parse_config
from electrify.config.run import RunConfig
from electrify.stage.folder import fingerprint, read_manifest, write_manifest
from electrify.stage.plan import (
    clean_stage,
    encode_stage,
    evaluate_stage,
    export_stage,
    pretrain_stage,
    vocab_stage,
)
from electrify.stage.run import run_stage
from tests.benchmarks.conftest import make_result, t_half_width, text_of
from tests.benchmarks.records import write

PRETRAINED, UNTRAINED = (0.8101, 0.8172, 0.8043), (0.4312, 0.3977, 0.4101)
DEGENERATE = "klue-ynat, 1 of 3 runs of random initialisation degenerate"
FIGURES = {"documents_in": 700, "documents_kept": 650}
FIGURES |= {"characters_in": 400_000, "characters_kept": 380_002}
CLEAN_REPORT = {"sources": [{"language": "ko", "source": "위키백과", **FIGURES}]}
VOCAB_REPORT = {"vocab_size": 4000, "languages": {"ko": {"pieces_per_word": 1.93}}}
PARAMETERS = {"trained": 2_345_678, "discriminator": 1_234_567, "generator": 987_654}
SUMMARY = {"parameters": PARAMETERS, "vocab_size": 4000, "num_steps": 600, "tokens": 614_400}
SUMMARY |= {"device": "CPU, 2 threads", "seconds": 121.5}
SUMMARY |= {"flops_paper": 2.46e12, "tokens_per_second": 5056.8}
RUN = """
seed = 7
export.dtype = "float16"
[clean]
sources = [
    { kind = "jsonl", language = "ko", path = "ko_*.jsonl", max_documents = 5 },
    { kind = "text", language = "en", path = 'a "b".txt', document = "line" },
]
[pretrain]
size = "small"
sequence_length = 64
num_steps = 600
warmup_steps = 60
[evaluate]
tasks = ["klue-ynat"]
seeds = [0, 1, 2]
tasks_options."squad-1.1".num_epochs = 1.0
"""


def put_results(run: Path, text: str) -> None:
    """As if the evaluation had ended with these records."""
    folder = run / "evaluate"
    (folder / "results.jsonl").write_text(text, encoding="utf-8")
    manifest = read_manifest(folder)
    manifest["files"]["results.jsonl"]["sha256"] = fingerprint(str(folder / "results.jsonl"))
    write_manifest(folder, manifest)


def run_config(folder: Path, **changes: object) -> RunConfig:
    config = tomllib.loads(RUN) | {"name": folder.name, "output_dir": str(folder)}
    config["pretrain"] |= changes
    return parse_config(config)


def metrics_lines() -> str:
    losses = {"loss": 14.0, "discriminator_loss": 0.3, "replaced_fraction": 0.13}
    detection = {"rtd_accuracy": 0.89, "rtd_auc": 0.76, "rtd_precision": 0.7, "rtd_recall": 0.12}
    speed = {"learning_rate": 1e-3, "gradient_norm": 1.2, "tokens_per_second": 5100.0}
    rows = [
        {"kind": kind, "step": step, "tokens": step * 1024, "seconds": step / 5, **more}
        | {"generator_loss": 5 + 3 * math.exp(-step / 200), **losses, **detection}
        for step in range(100, 601, 100)
        for kind, more in (("train", speed), ("valid", {}))
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def results() -> list[dict[str, Any]]:
    rows = [
        make_result(
            role=role,
            seed=seed,
            value=value,
            metrics={"macro_f1": value, "accuracy": value + 0.01},
            truncated_fraction=0.05,
        ).model_dump(mode="json")
        for role, values in (("pretrained", PRETRAINED), ("random-init", UNTRAINED))
        for seed, value in enumerate(values)
    ]
    rows[-1]["degenerate"] = "all 140 predictions are '정치'"
    return rows


def lines_of_results(**changes: Any) -> str:
    return "".join(json.dumps(row | changes) + "\n" for row in results())


def make_run(folder: Path, last: str = "evaluate", **changes: object) -> Path:
    """A run folder as the stages leave it, up to the stage `last`."""
    config = run_config(folder, **changes)
    stages = {
        "clean": (lambda: clean_stage(config, []), {"report.json": CLEAN_REPORT}),
        "vocab": (lambda: vocab_stage(config), {"report.json": VOCAB_REPORT}),
        "shards": (lambda: encode_stage(config), {"index.json": {"format_version": 1}}),
        "pretrain": (
            lambda: pretrain_stage(config),
            {"summary.json": SUMMARY, "metrics.jsonl": metrics_lines()},
        ),
        "export": (lambda: export_stage(config), {}),
        "evaluate": (
            lambda: evaluate_stage(config, None, {}),
            {"results.jsonl": lines_of_results()},
        ),
    }
    for name, (stage, files) in stages.items():

        def work(partial: Path, files: dict[str, Any] = files) -> dict[str, object]:
            for file, content in files.items():
                write(partial / file, content)
            return {}

        run_stage(stage(), work)
        if name == last:
            break
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("made") / "ko-demo")


@pytest.fixture
def run(finished, tmp_path):
    """A copy, to be changed."""
    return shutil.copytree(finished, tmp_path / "ko-demo")


def cells(text: str, first: str) -> list[str]:
    """The cells of the table row whose first cell is `first`."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return line.strip("| ").split(" | ")


def shown(run: Path) -> str:
    """The text of the report, of which the page is made."""
    return text_of((run / "report.md").read_text(encoding="utf-8"))


def test_scores_are_mean_and_sample_sd_over_seeds(run):
    assert report(read_runs([run]), None) == run / "report.html"
    page = shown(run)
    mean, control = statistics.mean(PRETRAINED), statistics.mean(UNTRAINED)
    row = cells(page, "klue-ynat | macro_f1 | export/discriminator")
    assert row[3] == f"{100 * mean:.2f} ± {100 * statistics.stdev(PRETRAINED):.2f}"
    assert row[5] == "3"
    half = t_half_width(PRETRAINED)
    low, high = (float(side) for side in row[4].removesuffix(" (seeds)").split(" to "))
    assert (low, high) == pytest.approx((100 * (mean - half), 100 * (mean + half)), abs=0.02)
    gain = cells(page, "klue-ynat | random initialisation")
    assert float(gain[2]) == pytest.approx(100 * (mean - control), abs=0.01)
    low, high = (float(side) for side in gain[3].removesuffix(" (seeds)").split(" to "))
    assert low < 100 * (mean - control) < high
    assert gain[-1] == "better"
    assert row[6:] == ["dev", "140", "560", "5.0 %"]
    assert f"Degenerate fine-tunings: {DEGENERATE}" in page
    seeds = [cells(page, f"klue-ynat | random initialisation | {seed}") for seed in (1, 2)]
    assert [row[-2] for row in seeds] == ["–", "all 140 predictions are '정치'"]
    # the first screen
    better = "Better than random initialisation on 1 of 1."
    assert f"ko-demo: klue-ynat {100 * mean:.1f} ± 0.6. {better}" in page
    assert cells(page, "ko-demo") == ["ko-demo", f"{100 * mean:.1f} ± 0.6"]
    assert cells(page, "random initialisation")[1] == f"{100 * control:.1f} ± 1.7"


def test_the_same_folder_gives_the_same_report(run):
    names = ("report.html", "report.md")
    report(read_runs([run]), None)
    first = [(run / name).read_bytes() for name in names]
    report(read_runs([run]), run.parent / "new" / "folder")
    assert [(run.parent / "new" / "folder" / name).read_bytes() for name in names] == first
    report(read_runs([run]), None)  # reports of a folder are no part of it
    assert [(run / name).read_bytes() for name in names] == first
    assert not list(run.glob("*.tmp"))


def test_several_runs_stand_side_by_side(tmp_path):
    first, second = make_run(tmp_path / "a"), make_run(tmp_path / "b", learning_rate=1e-3)
    part = make_run(tmp_path / "c", "pretrain")
    better = [row | {"value": row["value"] + 0.05} for row in results()]
    put_results(second, "".join(json.dumps(r) + "\n" for r in better))
    before = report(read_runs([first])).read_bytes()
    assert report(read_runs([first, second])) == first / "comparison" / "report.html"
    assert (first / "report.html").read_bytes() == before  # a comparison leaves it
    report(read_runs([first, second, part]), tmp_path / "compared")
    page = shown(tmp_path / "compared")
    mean = 100 * statistics.mean(PRETRAINED)
    assert cells(page, "a") == ["a", f"{mean:.1f} ± 0.6"]
    assert cells(page, "b") == ["b", f"{mean + 5:.1f} ± 0.6"]
    assert f"a: klue-ynat {mean:.1f} ± 0.6; b: klue-ynat {mean + 5:.1f} ± 0.6. b: better" in page
    assert "b: better than a on 1 of 1." in page
    assert f"Degenerate fine-tunings: a: {DEGENERATE}; b: {DEGENERATE}." in page
    # every seed gains as much, by which seeds are not paired
    better = [value + 0.05 for value in PRETRAINED]
    low, high = stats.ttest_ind(better, PRETRAINED, equal_var=False).confidence_interval()
    gain = cells(page, "klue-ynat | b")
    assert gain[1:4] == ["b", "a", "+5.00"]
    assert [float(x) for x in gain[4].removesuffix(" (seeds)").split(" to ")] == pytest.approx(
        [100 * low, 100 * high], abs=0.02
    )
    assert gain[-1] == "better"
    assert len(cells(page, "generator loss")) == 4
    report(read_runs([second, first, part]), tmp_path / "compared")
    assert cells(shown(tmp_path / "compared"), "klue-ynat | a")[-1] == "worse"


def test_scores_for_programs_are_numbers_or_null(tmp_path):
    runs = read_runs([make_run(tmp_path / "a"), make_run(tmp_path / "b")])
    records = json.loads(json.dumps(scores_for_programs(runs), allow_nan=False))
    assert [record["run"] for record in records] == ["a"] * 2 + ["b"] * 2
    for record, values in zip(records, [PRETRAINED, UNTRAINED] * 2, strict=True):
        assert record["mean"] == pytest.approx(statistics.mean(values))
        assert record["sd"] == pytest.approx(statistics.stdev(values))
        assert record["seeds"] == len(values)


def test_a_folder_that_is_no_run_is_refused(tmp_path, run):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"empty is no run folder: it has none of clean, vocab"):
        report(read_runs([tmp_path / "empty"]), None)
    with pytest.raises(ValueError, match=r"no folder .*nowhere; run first: electrify run"):
        report(read_runs([tmp_path / "nowhere"]), None)
    with pytest.raises(ValueError, match="file is a file; give a folder"):
        report(read_runs([run]), tmp_path / "file")
    assert not list(tmp_path.rglob("report.md"))


def test_what_differs_between_runs_is_named(tmp_path):
    first, second = make_run(tmp_path / "a"), make_run(tmp_path / "b")

    def differs(name: str, other: Path) -> str:
        report(read_runs([first, other]), tmp_path / "compared")
        return cells(shown(tmp_path / "compared"), f"klue-ynat | {name} | a")[3]

    other = {"recipe": "electra", "num_epochs": 9.0}
    put_results(second, lines_of_results(hyper_parameters=other))
    assert differs("b", second)
    searched = {"search": {"best": "x", "value": 0.5, "num_held_out": 9, "num_trials": 4}}
    put_results(second, lines_of_results(**searched))
    assert differs("b", second).startswith("trials of the search 4 and of the recipe")
    # the records of anyone, without a run around them
    path = tmp_path / "someone" / "results.jsonl"
    path.parent.mkdir()
    path.write_text(lines_of_results(data_sha256={"dev.json": "11"}), encoding="utf-8")
    for place in (path.parent, path):
        assert differs("someone", place).startswith("other rows of ")


def test_a_next_step_is_a_verb_of_a_run_only_where_that_resumes_it():
    def lines(unfinished: tuple[str, ...], *probes: str) -> list[str]:
        places = {stage: Path(stage) for stage in probes}
        run = RunFolder(Path("ko"), {}, unfinished, {}, {}, {}, (), {}, noise=places)
        summary = Summary([run], [], [])
        return [text.rpartition(": ")[2] for text in (*summary.verdicts(), *summary.warnings())]

    assert lines((), "robustness") == []  # of an encoder without a run
    first, alone = lines(("evaluate",))
    verdict, own, other = lines(("pretrain", "evaluate-bert"))
    assert (verdict, own) == ("electrify pretrain CONFIG",) * 2
    for text in (first, alone, other):
        assert text.rstrip(".").endswith("he command that began it resumes it")


VERDICTS = ("better", "better", "no significant difference", "worse", "not comparable")
OUTCOMES = dict(zip("abcde", VERDICTS, strict=True))


@pytest.fixture
def five_tasks(tmp_path) -> RunFolder:
    """Five tasks with three seeds, the encoder and both floors; nothing of its pretraining."""
    records = [
        make_result(task=task, role=role, seed=seed, value=0.5 + seed / 100)
        for task in OUTCOMES
        for role in ("pretrained", *BASELINES)
        for seed in range(3)
    ]
    lines = "".join(record.model_dump_json() + "\n" for record in records)
    write(tmp_path / "evaluate.partial" / "results.jsonl", lines)
    return replace(read_run(tmp_path), unfinished=())


def test_undecided_is_neither_better_nor_worse_and_nothing_is_advised(five_tasks):
    scores = task_scores("evaluate", five_tasks.evaluations["evaluate"])
    encoder = EncoderScores("ours", five_tasks, {score.first.task: score for score in scores})
    compared = [
        ComparedScore(
            score, "", floor, Comparison(OUTCOMES[score.first.task], "", Interval(0.1), 0.04)
        )
        for floor in BASELINES.values()
        for score in scores
    ]
    summary = Summary([five_tasks], [encoder], compared)
    [sentence] = summary.verdicts()
    for floor in BASELINES.values():
        # what cannot be compared is not counted
        assert f"than {floor} on 2 of 4 (worse on 1, undecided on 1)" in sentence
    [warning] = summary.warnings()
    tasks = "; ".join(f"d (against {floor})" for floor in BASELINES.values())
    assert warning == f"Worse than a baseline on {tasks}."
