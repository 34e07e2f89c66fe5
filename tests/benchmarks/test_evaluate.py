"""Jobs are done once, whatever stops them and whatever else is asked for between."""

import json
import os
import shutil
import signal
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import benchmarks.finetune.jobs
from benchmarks.encoder import open_model
from benchmarks.evaluate import evaluate
from benchmarks.finetune import plan
from benchmarks.finetune.jobs import plan_jobs
from benchmarks.report.report import read_runs, report
from benchmarks.results.predictions import read_predictions, rescore
from benchmarks.results.results import (
    MEASURED,
    RESULTS,
    TRIALS,
    current_results,
    read_results,
)
from benchmarks.results.submission import write_submissions
from benchmarks.tasks.load import TaskData
from benchmarks.tasks.registry import resolve_tasks
from electrify.overview import evaluation_cost
from electrify.system.progress import Stopped
from tests.benchmarks.conftest import folder_of, topic_rows
from tests.benchmarks.records import MNLI, write


@pytest.fixture
def started(monkeypatch):
    """Tasks, variants and seeds of jobs in the order they were started."""
    seen = []
    real = benchmarks.finetune.jobs.finetune

    def finetune(features, model, variant, seed, *rest):
        seen.append((features.task.name, variant, seed))
        return real(features, model, variant, seed, *rest)

    monkeypatch.setattr(benchmarks.finetune.jobs, "finetune", finetune)
    return seen


@pytest.fixture
def stopping(monkeypatch):
    """Runs `work`, which is sent SIGTERM at the start of its n-th job."""

    def run(number, work, of="finetune"):
        real, count = getattr(benchmarks.finetune.jobs, of), []

        def finetune(*arguments):
            count.append(1)
            if len(count) == number:
                os.kill(os.getpid(), signal.SIGTERM)
            return real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(benchmarks.finetune.jobs, of, finetune)
            with pytest.raises(Stopped, match="jobs are saved"):
                work()

    return run


def timeless(folder):
    return [r.model_copy(update=dict.fromkeys(MEASURED, 0)) for r in current_results(folder)]


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("manifest.json", "results.jsonl")
    }


def test_writes_a_record_and_predictions_for_every_job(
    make_config, model_folder, started, tmp_path
):
    config = make_config(seeds=[0, 1], random_init_control=True, num_epochs=2)
    evaluate(config, str(model_folder), overwrite=False, name="mine")
    jobs = [("pretrained", 0), ("pretrained", 1), ("random-init", 0), ("random-init", 1)]
    assert [job[1:] for job in started] == jobs
    folder = folder_of(config)
    results = read_results(folder / "results.jsonl")
    assert [(r.role, r.seed) for r in results] == jobs
    for record in results:
        assert (record.metric, record.split, record.num_examples) == ("macro_f1", "dev-part", 42)
        assert record.examples == "42 of 9,107"
        assert set(record.data_sha256) == set(record.parts) == {"train", "dev"}
        path = folder / "predictions" / "klue-ynat" / f"{record.role}-{record.seed}.jsonl"
        header, rows = read_predictions(path)
        assert (header["task"], header["role"]) == ("klue-ynat", record.role)
        assert [row["id"] for row in rows] == [f"dev-{n}" for n in range(42)]
        right = sum(row["gold"] == row["prediction"] for row in rows) / 42
        assert right == pytest.approx(record.metrics["accuracy"])
        assert all(len(row["probabilities"]) == 7 for row in rows)
    other = tmp_path / "moved"
    for path in (model_folder, shutil.copytree(model_folder, other)):
        evaluate(config, str(path), overwrite=False, name="mine")
    assert len(started) == 4  # done already
    (other / "more.json").write_text("{}")
    with pytest.raises(ValueError, match=f"has the scores of {model_folder}, not of {other}"):
        evaluate(config, str(other), overwrite=False, name="mine")


def test_a_bag_of_words_learns_from_the_rows_of_the_encoder(make_config, model_folder, stopping):
    """Seed by seed; one that is stopped is kept. The evaluation of other weights of the same shape
    finds the same records of it and of the untrained twin."""
    options = {"seeds": [0, 1], "num_epochs": 1, "max_train_examples": 30}
    config = make_config(bag_of_words=True, train_fractions=[0.5, 1.0], **options)
    stopping(1, lambda: evaluate(config, str(model_folder), False), "score_bag_of_words")
    stopped = read_results(folder_of(config) / "results.jsonl")
    assert [(r.role, r.seed) for r in stopped[2:]] == [("bag-of-words", 0)]
    evaluate(config, str(model_folder), overwrite=False)
    folder = folder_of(config)
    results = read_results(folder / "results.jsonl")
    floor, encoder = (
        {(r.train_fraction, r.seed): r for r in results if r.role == model}
        for model in ("bag-of-words", "pretrained")
    )
    assert floor.keys() == encoder.keys() == {(f, s) for f in (0.5, 1.0) for s in (0, 1)}
    for key, record in floor.items():
        assert record.num_train_examples == encoder[key].num_train_examples
        assert record.encoder == "TF-IDF"
        assert record.value > 0.5  # its words decide
    tasks = resolve_tasks([], ["klue-ynat", "klue-ner"])
    source = open_model(str(model_folder))
    keys, random = {}, {}
    both = config.evaluate.model_copy(update={"random_init_control": True})
    data = {task.name: TaskData((), (), "dev", {}) for task in tasks}
    for weights in ("a", "b"):
        jobs = plan_jobs(both, tasks, source, {"export": weights}, data)
        keys[weights] = {job.key for job in jobs if job.role == "bag-of-words"}
        random[weights] = {job.key for job in jobs if job.role == "random-init"}
        assert not random[weights] & {job.key for job in jobs if job.role == "pretrained"}
        assert {job.task.name for job in jobs if job.role == "bag-of-words"} == {"klue-ynat"}
    assert keys["a"] == keys["b"]
    assert len(keys["a"]) == 4
    assert random["a"] == random["b"]
    assert len(random["a"]) == 8


def test_auto_is_settled_once_for_an_evaluation(make_config, model_folder, monkeypatch):
    """Its later jobs are computed as the first ones, wherever it is continued."""
    for seeds, flag in (([0], "amx_bf16"), ([0, 1], None)):
        monkeypatch.setattr("electrify.system.machine.bf16_flag", lambda flag=flag: flag)
        config = make_config(seeds=seeds, num_epochs=1)
        assert config.evaluate.precision == "auto"
        evaluate(config, str(model_folder), overwrite=False)
    results = read_results(folder_of(config) / "results.jsonl")
    assert {r.seed: r.hyper_parameters["precision"] for r in results} == {0: "bf16", 1: "bf16"}


def write_rows(folder: Path) -> None:
    """Three sorts of tasks, one of them with further splits, out of the tokenizer's words."""
    words = ["국회", "증시", "경찰", "여행", "오늘"]
    pairs = [f"{a}\t{b}" for a in words for b in words]
    labels = ("neutral", "entailment", "contradiction")
    mnli = [f"{pair}\t{labels[n % 3]}" for n, pair in enumerate(pairs)]
    stsb = [f"{pair}\t{n % 6}" for n, pair in enumerate(pairs)]
    ner = [f"{pair.replace(chr(9), ' ')}\tORG-B O" for pair in pairs]
    unlabelled = ["index\tsentence1\tsentence2", *(f"{n}\t{pair}" for n, pair in enumerate(pairs))]
    for split in ("train", "dev_matched", "dev_mismatched"):
        rows = ["sentence1\tsentence2\tgold_label", *mnli]
        write(folder / f"MNLI/{split}.tsv", "\n".join(rows))
    for name in ("MNLI/test_matched", "MNLI/test_mismatched", "diagnostic/diagnostic"):
        write(folder / f"{name}.tsv", "\n".join(unlabelled))
    for split in ("train", "dev"):
        write(folder / f"STS-B/{split}.tsv", "\n".join(["sentence1\tsentence2\tscore", *stsb]))
    for split in ("train", "test"):
        write(folder / f"naver-ner/{split}.tsv", "\n".join(ner))


def test_several_sorts_of_tasks_stopped_after_each_job_end_alike(
    make_config, model_folder, started, stopping, tmp_path
):
    write_rows(tmp_path / "data")
    config = make_config(
        tasks=["glue-mnli", "glue-stsb", "korean-naver-ner"],
        data_dir=str(tmp_path / "data"),
        num_epochs=2,
        max_sequence_length=8,
    )
    evaluate(config, str(model_folder), overwrite=False)
    whole = folder_of(config)
    stopped = config.model_copy(update={"output_dir": str(tmp_path / "stopped")})
    for _ in range(2):
        stopping(2, lambda: evaluate(stopped, str(model_folder), overwrite=False))
    path = folder_of(stopped) / "results.jsonl"
    path.write_bytes(path.read_bytes() + b'{"suite": "kl')  # as a kill may leave it
    evaluate(stopped, str(model_folder), overwrite=False)
    assert len(started) == 3 + 5  # two of the five were stopped
    assert timeless(folder_of(stopped)) == timeless(whole)
    found = files_of(folder_of(stopped))
    assert found == files_of(whole)
    # from the official files to the zip: AX and both sets of MNLI by one model
    mnli = current_results(folder_of(stopped))[0].metrics
    assert set(mnli) == {"accuracy", "dev_mismatched_accuracy"}
    assert mnli["accuracy"] == mnli["dev_mismatched_accuracy"]
    with zipfile.ZipFile(folder_of(stopped) / "submission/pretrained-0/glue.zip") as archive:
        assert set(archive.namelist()) == {"MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"}
        first, *rows = archive.read("AX.tsv").decode().splitlines()
    assert (first, len(rows)) == ("index\tprediction", 25)
    assert {row.split("\t")[1] for row in rows} <= set(MNLI.labels)
    assert rescore(folder_of(stopped)) == 0
    path = folder_of(stopped) / "predictions/glue-mnli/pretrained-0.ax.jsonl"
    assert [line["gold"] for line in read_predictions(path)[1]] == [None] * 25


def test_records_of_other_options_stay_and_count_for_what_asks_for_them(
    make_config, model_folder, started, stopping, ynat_folder, tmp_path
):
    data = tmp_path / "data"
    shutil.copytree(ynat_folder, data)

    def run(overwrite=False, stop_at=None, **options):
        config = make_config(num_epochs=1, data_dir=str(data), **options)
        started.clear()

        def work():
            evaluate(config, str(model_folder), overwrite)

        if stop_at:
            return stopping(stop_at, work)
        work()
        return {r.seed: r.value for r in current_results(folder_of(config))}

    run(seeds=[0, 1])
    folder = folder_of(make_config())
    before = files_of(folder), timeless(folder)
    other = {"seeds": [0, 1, 2], "learning_rate": 3e-3}
    run(stop_at=2, **other)
    assert (files_of(folder), timeless(folder)) == before  # the finished one while others run
    found = run(**other)
    assert [seed for _, _, seed in started] == [1, 2]
    assert found.keys() == {0, 1, 2}
    assert {r.hyper_parameters["learning_rate"] for r in current_results(folder)} == {3e-3}
    assert len(read_results(folder / "results.jsonl")) == 5
    kept = {name: content for name, content in before[0].items() if "/" in name}  # predictions
    assert kept.items() <= files_of(folder).items()
    assert rescore(folder) == 0
    assert "3 seeds" in report(read_runs([folder.parent])).with_suffix(".md").read_text()
    run(seeds=[1])  # of those before
    assert not started
    assert timeless(folder) == before[1][1:]
    dev = data / "ynat" / "ynat-v1.1_dev.json"
    dev.write_text(dev.read_text(encoding="utf-8").replace("오늘", "내일"), encoding="utf-8")
    run(seeds=[1])  # of other rows
    assert len(started) == 1
    run(seeds=[0], learning_rate=1e-3, overwrite=True)
    assert len(read_results(folder / "results.jsonl")) == 1
    (path,) = (folder / "predictions").rglob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(ValueError, match="has changed since it was made"):
        run(seeds=[0, 1])
    assert not folder.with_name(f"{folder.name}.partial").exists()


def test_a_kill_while_records_are_carried_over_loses_none(
    make_config, model_folder, started, monkeypatch
):
    """Between the records of trials and those of jobs."""
    options = {"num_epochs": 1, "search": {"learning_rate": [5e-3]}}
    evaluate(make_config(**options), str(model_folder), overwrite=False)
    copied, copy = [], shutil.copyfile

    def copyfile(*arguments, **options):
        if Path(arguments[0]).name in (RESULTS, TRIALS):
            copied.append(arguments)
            if len(copied) == 2:
                raise KeyboardInterrupt
        return copy(*arguments, **options)

    more = make_config(**options, seeds=[0, 1])
    with monkeypatch.context() as patch:
        patch.setattr("benchmarks.evaluate.shutil.copyfile", copyfile)
        with pytest.raises(KeyboardInterrupt):
            evaluate(more, str(model_folder), overwrite=False)
    started.clear()
    evaluate(more, str(model_folder), overwrite=False)
    assert [seed for _, _, seed in started] == [1]


def test_a_degenerate_job_stays_in_the_results(make_config, model_folder):
    config = make_config(
        learning_rate=1e30, warmup_fraction=0.0, num_epochs=1, keep_models=True
    )  # there is no network to keep
    evaluate(config, str(model_folder), overwrite=False)
    folder = folder_of(config)
    assert rescore(folder) == 0
    assert write_submissions(folder) == []
    record = json.loads((folder / "results.jsonl").read_text())
    assert record["value"] is None
    assert record["degenerate"].startswith("loss is nan")
    _, [line, *_] = read_predictions(folder / "predictions/klue-ynat/pretrained-0.jsonl")
    assert (line["prediction"], line["probabilities"]) == (None, None)
    assert json.loads((folder / "manifest.json").read_text())["counts"]["degenerate"] == 1


def test_a_task_of_ones_own_is_scored_kept_and_reported_as_others(
    make_config, model_folder, started, tmp_path, monkeypatch
):
    """The searched rates are its own; other data of the same name are other jobs."""
    rows = [f"{row['title']} {n},{row['label']}" for n, row in enumerate(topic_rows(60, "own"))]
    file = tmp_path / "topics.csv"
    file.write_text("\n".join(["headline,topic", *rows]), encoding="utf-8")
    options = {"num_epochs": 1, "min_steps": 1, "tasks": []}
    options["own_tasks"] = [{"train": str(file)}]
    config = make_config(
        bag_of_words=True, search={"learning_rate": [1e-3, 5e-3]}, data_dir=None, **options
    )
    evaluate(config, str(model_folder), overwrite=False)
    assert started == [("topics", "pretrained", 0)] * 3
    evaluate(config, str(model_folder), overwrite=False)
    assert len(started) == 3
    folder = folder_of(config)
    records = read_results(folder / "results.jsonl")
    assert [(r.suite, r.task, r.split, r.metric) for r in records] == [
        ("own", "topics", "train-split-eval", "accuracy")
    ] * 2
    assert rescore(folder) == 0
    report(
        read_runs([Path(config.output_dir)]),
        tmp_path / "page",
        data_dirs=[tmp_path],
        baseline="random-init",
    )
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "topics" in page
    assert "<dt>headline</dt>" in page  # a text is quoted
    file.write_text("\n".join(["headline,topic", *rows, "새 축구,스포츠"]), encoding="utf-8")
    evaluate(config, str(model_folder), overwrite=True)
    assert len(started) == 6


def test_the_cost_is_said_before_the_first_step(make_config, model_folder, caplog, monkeypatch):
    """By validate too, once the run has an export; of what is done, or is little, nothing is
    said."""
    config = make_config(seeds=[0, 1], num_epochs=1, search={"learning_rate": [1e-3, 5e-3]})
    shutil.copytree(model_folder, Path(config.output_dir) / "export" / "discriminator")
    assert not any("timed steps" in line for line in evaluation_cost(config))
    monkeypatch.setattr(plan, "FEW_EXAMPLES", 0)
    starts = ["evaluate: trials of the search: 2,", "evaluate: fine-tunings: 2,"]
    assert [line.split(" about ")[0] for line in evaluation_cost(config)[:2]] == starts
    with caplog.at_level("INFO"):
        evaluate(config, str(model_folder), overwrite=False)
    said = [line.split(" about ")[0] for line in caplog.messages]
    assert (
        said.index(starts[0])
        < said.index(starts[1])
        < min(place for place, line in enumerate(said) if line.startswith("search: 2 trials to do"))
    )
    caplog.clear()
    with caplog.at_level("INFO"):
        evaluate(config, str(model_folder), overwrite=False)
    assert "fine-tunings:" not in caplog.text


def test_trackers_get_each_score_and_the_means_in_one_run(make_config, model_folder, monkeypatch):
    """Also of an evaluation that more seeds are added to; the records are as without a tracker."""
    runs: dict[str, list[dict[str, float]]] = {}

    def init(**options):
        run = SimpleNamespace(log=runs.setdefault(options["id"], []).append)
        run.define_metric, run.finish = lambda *a, **k: None, lambda: None
        return run

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    options = {"num_epochs": 1, "random_init_control": True}
    for seeds in ([0], [0, 1]):
        config = make_config(seeds=seeds, wandb_project="korean", **options)
        evaluate(config, str(model_folder), overwrite=False)
    evaluate(config, str(model_folder), overwrite=False)  # nothing is left to do
    (logged,) = runs.values()
    results = current_results(folder_of(config))
    values = {(r.role, r.seed): r.value for r in results}
    name = "klue-ynat/macro_f1"
    found = {("pretrained", f["step"]): f[name] for f in logged if name in f}
    name = f"random-init/{name}"
    found |= {("random-init", f["step"]): f[name] for f in logged if name in f}
    assert found == values
    means = [figures for figures in logged if "mean/klue-ynat/macro_f1" in figures]
    assert len(means) == 2
    both = [values["pretrained", seed] for seed in (0, 1)]
    assert means[-1]["mean/klue-ynat/macro_f1"] == pytest.approx(sum(both) / 2)
