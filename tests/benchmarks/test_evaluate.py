import json
import os
import signal
from pathlib import Path

import pytest

import benchmarks.finetune.jobs
from benchmarks.evaluate import evaluate
from benchmarks.finetune.jobs import plan_jobs
from benchmarks.results.predictions import read_predictions
from benchmarks.results.results import MEASURED, read_results
from benchmarks.tasks.registry import resolve_tasks
from electrify.config.run import RunConfig
from electrify.system.machine import CpuBf16
from electrify.system.progress import Stopped


def evaluation_folder(config: RunConfig) -> Path:
    """The one stage folder of the run, finished or partial."""
    (folder,) = Path(config.output_dir).glob("evaluate-*")
    return folder


@pytest.fixture
def started(monkeypatch):
    """Jobs in the order they were started."""
    seen = []
    real = benchmarks.finetune.jobs.finetune

    def finetune(features, model, variant, seed, *rest):
        seen.append((variant, seed))
        return real(features, model, variant, seed, *rest)

    monkeypatch.setattr(benchmarks.finetune.jobs, "finetune", finetune)
    return seen


def test_writes_a_record_and_predictions_for_every_job(make_config, model_folder, started):
    config = make_config(seeds=[0, 1], random_init_control=True, num_epochs=2)
    evaluate(config, str(model_folder), overwrite=False)
    jobs = [("pretrained", 0), ("pretrained", 1), ("random-init", 0), ("random-init", 1)]
    assert started == jobs
    folder = evaluation_folder(config)
    results = read_results(folder / "results.jsonl")
    assert [(r.model, r.seed) for r in results] == jobs
    for record in results:
        assert (record.metric, record.split, record.num_examples) == ("macro_f1", "dev-part", 42)
        assert record.examples == "42 of 9,107"
        assert set(record.data_sha256) == set(record.parts) == {"train", "dev"}
        path = folder / "predictions" / "klue-ynat" / f"{record.model}-{record.seed}.jsonl"
        header, rows = read_predictions(path)
        assert (header["task"], header["variant"]) == ("klue-ynat", record.model)
        assert [row["id"] for row in rows] == [f"dev-{n}" for n in range(42)]
        right = sum(row["gold"] == row["prediction"] for row in rows) / 42
        assert right == pytest.approx(record.metrics["accuracy"])
        assert all(len(row["probabilities"]) == 7 for row in rows)
    evaluate(config, str(model_folder), overwrite=False)
    assert started == jobs  # done already


def test_auto_is_settled_once_for_an_evaluation(make_config, model_folder, monkeypatch):
    """Its later jobs are computed as the first ones, wherever it is continued."""
    config = make_config(seeds=[0], num_epochs=1)
    assert config.evaluate.precision == "auto"
    seeds = {"seeds": (0, 1)}
    more = config.model_copy(update={"evaluate": config.evaluate.model_copy(update=seeds)})
    for config_now, found in ((config, CpuBf16("amx_bf16", 4.0)), (more, CpuBf16(None, 0.1))):
        monkeypatch.setattr("benchmarks.finetune.finetune._cpu_bf16", lambda found=found: found)
        evaluate(config_now, str(model_folder), overwrite=False)
    results = read_results(evaluation_folder(config) / "results.jsonl")
    assert {r.seed: r.hyper_parameters["precision"] for r in results} == {0: "bf16", 1: "bf16"}


def test_stopped_and_continued_equals_never_stopped(
    make_config, model_folder, started, monkeypatch, tmp_path
):
    config = make_config(seeds=[0, 1, 2], num_epochs=1)
    evaluate(config, str(model_folder), overwrite=False)
    whole = evaluation_folder(config)
    stopped = config.model_copy(update={"output_dir": str(tmp_path / "stopped")})
    counting = benchmarks.finetune.jobs.finetune

    def killed_in_the_second_job(*arguments):
        if arguments[3] == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return counting(*arguments)

    started.clear()
    with monkeypatch.context() as patch:
        patch.setattr(benchmarks.finetune.jobs, "finetune", killed_in_the_second_job)
        with pytest.raises(Stopped, match="1 of 3 jobs are saved"):
            evaluate(stopped, str(model_folder), overwrite=False)
    path = evaluation_folder(stopped) / "results.jsonl"
    path.write_bytes(path.read_bytes() + b'{"suite": "kl')  # as a kill may leave it
    evaluate(stopped, str(model_folder), overwrite=False)
    assert [seed for _, seed in started] == [0, 1, 1, 2]
    continued = evaluation_folder(stopped)
    assert timeless(continued) == timeless(whole)
    for name in ("pretrained-0", "pretrained-1", "pretrained-2"):
        file = f"predictions/klue-ynat/{name}.jsonl"
        assert (continued / file).read_bytes() == (whole / file).read_bytes()


def timeless(folder):
    return [
        record.model_copy(update=dict.fromkeys(MEASURED, 0))
        for record in read_results(folder / "results.jsonl")
    ]


def write_rows(folder: Path) -> None:
    """Three sorts of tasks, one of them with further splits, out of the tokenizer's words."""
    words = ["국회", "증시", "경찰", "여행", "오늘"]
    pairs = [(a, b) for a in words for b in words]
    labels = ("neutral", "entailment", "contradiction")
    rows = {
        "MNLI/{}.tsv": ["sentence1\tsentence2\tgold_label"]
        + [f"{a}\t{b}\t{labels[n % 3]}" for n, (a, b) in enumerate(pairs)],
        "STS-B/{}.tsv": ["sentence1\tsentence2\tscore"]
        + [f"{a}\t{b}\t{n % 6}" for n, (a, b) in enumerate(pairs)],
        "naver-ner/{}.tsv": [f"{a} {b}\tORG-B O" for a, b in pairs],
    }
    names = {"MNLI": ("train", "dev_matched", "dev_mismatched", "test_matched")}
    for pattern, lines in rows.items():
        for name in names.get(pattern.split("/")[0], ("train", "dev", "test")):
            path = folder / pattern.format(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines), encoding="utf-8")


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("manifest.json", "results.jsonl")
    }


def test_several_sorts_of_tasks_stopped_after_each_job_end_alike(
    make_config, model_folder, started, monkeypatch, tmp_path
):
    write_rows(tmp_path / "data")
    config = make_config(
        tasks=["glue-mnli", "glue-stsb", "korean-naver-ner"],
        data_dir=str(tmp_path / "data"),
        num_epochs=2,
        max_sequence_length=8,
    )
    evaluate(config, str(model_folder), overwrite=False)
    whole = evaluation_folder(config)
    assert len(started) == 3
    stopped = config.model_copy(update={"output_dir": str(tmp_path / "stopped")})
    started.clear()
    counting = benchmarks.finetune.jobs.finetune

    def killed_in_its_second_job(*arguments):
        if len(started) % 2 == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return counting(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(benchmarks.finetune.jobs, "finetune", killed_in_its_second_job)
        for saved in (1, 2):
            with pytest.raises(Stopped, match=f"{saved} of 3 jobs are saved"):
                evaluate(stopped, str(model_folder), overwrite=False)
    evaluate(stopped, str(model_folder), overwrite=False)
    assert timeless(evaluation_folder(stopped)) == timeless(whole)
    found = files_of(evaluation_folder(stopped))
    assert found == files_of(whole)
    assert "submission/pretrained-0/glue.zip" in found
    assert "predictions/glue-mnli/pretrained-0.dev_mismatched.jsonl" in found


def test_a_degenerate_job_stays_in_the_results(make_config, model_folder):
    config = make_config(learning_rate=1e30, warmup_fraction=0.0, num_epochs=1)
    evaluate(config, str(model_folder), overwrite=False)
    folder = evaluation_folder(config)
    record = json.loads((folder / "results.jsonl").read_text())
    assert record["value"] is None
    assert record["degenerate"].startswith("loss is nan")
    _, [line, *_] = read_predictions(folder / "predictions/klue-ynat/pretrained-0.jsonl")
    assert (line["prediction"], line["probabilities"]) == (None, None)
    assert json.loads((folder / "manifest.json").read_text())["counts"]["degenerate"] == 1


def test_what_is_missing_is_named_before_any_work(make_config, model_folder, tmp_path):
    with pytest.raises(ValueError, match=r"--data-dir FOLDER .*ynat-v1\.1_dev\.json"):
        evaluate(make_config(data_dir=None), str(model_folder), overwrite=False)
    with pytest.raises(ValueError, match="unknown task 'ynat'"):
        make_config(tasks=["ynat"])
    with pytest.raises(ValueError, match="run first: electrify export CONFIG"):
        evaluate(make_config(), None, overwrite=False)
    assert not (tmp_path / "out").exists()


def test_a_tasks_own_options_shape_its_jobs(make_config, model_folder):
    config = make_config(num_epochs=2, tasks_options={"klue-ynat": {"num_epochs": 1.0}})
    evaluate(config, str(model_folder), overwrite=False)
    (result,) = read_results(evaluation_folder(config) / "results.jsonl")
    assert result.hyper_parameters["num_steps"] == 10
    with pytest.raises(ValueError, match="unknown task 'klue-ynta'; did you mean klue-ynat"):
        make_config(tasks_options={"klue-ynta": {}})


def test_the_protocol_stands_in_the_record(make_config, model_folder):
    config = make_config(selection="best-on-a-split-of-train", num_epochs=2, micro_batch_size=7)
    evaluate(config, str(model_folder), overwrite=False)
    (result,) = read_results(evaluation_folder(config) / "results.jsonl")
    assert result.selection == "best-on-a-split-of-train"
    assert set(result.selected) == {"step", "value", "num_evaluations", "last_step"}
    assert result.num_train_examples < 140  # a part of them chose the step
    assert result.num_examples == 42
    assert result.hyper_parameters["micro_batch_size"] == 7
    with pytest.raises(ValueError, match=r"selection_fraction = 0\.001 leaves 140 rows"):
        evaluate(
            make_config(selection="best-on-a-split-of-train", selection_fraction=0.001),
            str(model_folder),
            overwrite=True,
        )


def test_jobs_are_task_by_task_without_doubles(make_config):
    options = make_config(seeds=[2, 0, 2], random_init_control=True).evaluate
    jobs = plan_jobs(options, resolve_tasks([], ["klue-ynat", "klue-nli", "klue-ner"]), "bert")
    assert [job.key for job in jobs[:4]] == [
        ("klue-ynat", "pretrained", 2, 1.0),
        ("klue-ynat", "pretrained", 0, 1.0),
        ("klue-ynat", "random-init", 2, 1.0),
        ("klue-ynat", "random-init", 0, 1.0),
    ]
    assert len(jobs) == 3 * 2 * 2
