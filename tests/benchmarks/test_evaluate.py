"""Fine-tunings are done once, whatever stops them and whatever else is asked for between."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

import benchmarks.jobs
from benchmarks.evaluate import evaluate, evaluate_checkpoints, evaluate_start
from benchmarks.report import read_runs, report
from benchmarks.results.predictions import predictions_of_result, read_predictions
from benchmarks.results.results import current_results, read_results
from benchmarks.results.run_folder import read_run
from electrify.config.run import RunConfig
from electrify.stage.folder import Stage, write_manifest
from electrify.stage.run import run_stage
from electrify.system.progress import Stopped
from tests.benchmarks.conftest import folder_of, topic_rows
from tests.benchmarks.records import MEASURED, MNLI, write


@pytest.fixture(autouse=True)
def one_fold(monkeypatch):
    """TF-IDF chooses on one fold."""
    monkeypatch.setattr("benchmarks.training.bag_of_words._ENOUGH_HELD_OUT", 1)


@pytest.fixture
def started(monkeypatch):
    """Tasks, roles and seeds of fine-tunings in the order they were started."""
    seen = []
    real = benchmarks.jobs.finetune

    def finetune(features, *arguments, **options):
        seen.append((features.task.name, options["role"], options["seed"]))
        return real(features, *arguments, **options)

    monkeypatch.setattr(benchmarks.jobs, "finetune", finetune)
    return seen


@pytest.fixture
def stopping(monkeypatch):
    """Runs `work`, which is sent SIGTERM at the start of its n-th fine-tuning."""

    def run(number, work, of="finetune"):
        real, count = getattr(benchmarks.jobs, of), []

        def finetune(*arguments, **options):
            count.append(1)
            if len(count) == number:
                os.kill(os.getpid(), signal.SIGTERM)
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(benchmarks.jobs, of, finetune)
            with pytest.raises(Stopped, match="are saved"):
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


def test_writes_a_record_and_predictions_for_every_seed(
    make_config, model_folder, started, tmp_path
):
    config = make_config(seeds=[0, 1], random_init_control=True, num_epochs=2)
    evaluate(config, str(model_folder), name="mine")
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
        evaluate(config, str(path), name="mine")
    assert len(started) == 4  # done already
    (other / "more.json").write_text("{}")
    with pytest.raises(ValueError, match=f"has the scores of other weights, {model_folder}"):
        evaluate(config, str(other), name="mine")


def test_a_bag_of_words_learns_from_the_rows_of_the_encoder(make_config, model_folder, stopping):
    """Seed by seed; one that is stopped is kept."""
    options = {"seeds": [0, 1], "num_epochs": 1, "max_train_examples": 30}
    config = make_config(bag_of_words=True, train_fractions=[0.5, 1.0], **options)
    stopping(1, lambda: evaluate(config, str(model_folder)), "fit_bag_of_words")
    stopped = read_results(folder_of(config) / "results.jsonl")
    assert [(r.role, r.seed) for r in stopped[2:]] == [("bag-of-words", 0)]
    evaluate(config, str(model_folder))
    results = read_results(folder_of(config) / "results.jsonl")
    words, encoder = (
        {(r.train_fraction, r.seed): r for r in results if r.role == role}
        for role in ("bag-of-words", "pretrained")
    )
    assert words.keys() == encoder.keys() == {(f, s) for f in (0.5, 1.0) for s in (0, 1)}
    for key, record in words.items():
        assert record.num_train_examples == encoder[key].num_train_examples
        assert record.encoder == "TF-IDF"
        assert record.value > 0.5  # its words decide


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


def test_several_sorts_of_tasks_stopped_after_each_end_alike(
    make_config, model_folder, started, stopping, tmp_path
):
    write_rows(tmp_path / "data")
    options = {"tasks": ["glue-mnli", "glue-stsb", "korean-naver-ner"], "num_epochs": 2}
    config = make_config(data_dir=str(tmp_path / "data"), max_sequence_length=8, **options)
    evaluate(config, str(model_folder))
    whole = folder_of(config)
    stopped = config.model_copy(update={"output_dir": str(tmp_path / "stopped")})
    for _ in range(2):
        stopping(2, lambda: evaluate(stopped, str(model_folder)))
    path = folder_of(stopped) / "results.jsonl"
    path.write_bytes(path.read_bytes() + b'{"suite": "kl')  # as a kill may leave it
    evaluate(stopped, str(model_folder))
    assert len(started) == 3 + 5  # two of the five were stopped
    assert timeless(folder_of(stopped)) == timeless(whole)
    assert files_of(folder_of(stopped)) == files_of(whole)
    # from the official files to the leaderboard's: AX and both sets of MNLI by one model
    mnli = current_results(folder_of(stopped))[0].metrics
    assert set(mnli) == {"accuracy", "dev_mismatched_accuracy"}
    assert mnli["accuracy"] == mnli["dev_mismatched_accuracy"]
    written = {p.name: p for p in (folder_of(stopped) / "submission/pretrained-0").iterdir()}
    assert written.keys() == {"MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"}
    first, *rows = written["AX.tsv"].read_text().splitlines()
    assert (first, len(rows)) == ("index\tprediction", 25)
    assert {row.split("\t")[1] for row in rows} <= set(MNLI.labels)
    path = folder_of(stopped) / "predictions/glue-mnli/pretrained-0.ax.jsonl"
    assert [line["gold"] for line in read_predictions(path)[1]] == [None] * 25


def test_a_file_that_comes_later_is_predicted(make_config, model_folder, started, tmp_path):
    write_rows(tmp_path / "data")
    ax = tmp_path / "data" / "diagnostic" / "diagnostic.tsv"
    later = ax.rename(tmp_path / "later.tsv")
    options = {"tasks": ["glue-mnli"], "data_dir": str(tmp_path / "data"), "num_epochs": 1}
    config = make_config(**options)
    evaluate(config, str(model_folder))
    later.rename(ax)
    for _ in range(2):
        evaluate(config, str(model_folder))
    assert len(started) == 2
    assert (folder_of(config) / "submission/pretrained-0/AX.tsv").is_file()


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

    first = run(seeds=[0, 1])
    folder = folder_of(make_config())
    before = files_of(folder)
    other = {"seeds": [0, 1, 2], "learning_rate": 3e-3}
    with pytest.raises(ValueError, match="positions"):  # refused: the finished one is as before
        run(seeds=[0], max_sequence_length=99)
    assert files_of(folder) == before
    run(stop_at=2, **other)
    partial = folder_of(make_config())
    assert len(read_results(partial / "results.jsonl")) == 3
    assert before.items() - {("scores.csv", before["scores.csv"])} <= files_of(partial).items()
    found = run(**other)
    assert [seed for _, _, seed in started] == [1, 2]
    assert found.keys() == {0, 1, 2}
    assert {r.hyper_parameters["learning_rate"] for r in current_results(folder)} == {3e-3}
    assert len(read_results(folder / "results.jsonl")) == 5
    assert "3 seeds" in report(read_runs([folder.parent])).with_suffix(".md").read_text()
    for result in read_results(folder / "results.jsonl"):  # each has predictions of its own
        lines = predictions_of_result(folder, result)
        right = sum(line["gold"] == line["prediction"] for line in lines) / len(lines)
        assert right == pytest.approx(result.metrics["accuracy"])
    assert run(seeds=[0, 1]) == first  # those before, which count again
    assert not started
    dev = data / "ynat" / "ynat-v1.1_dev.json"
    dev.write_text(dev.read_text(encoding="utf-8").replace("오늘", "내일"), encoding="utf-8")
    assert run(seeds=[1]).keys() == {1}  # of other rows
    assert len(started) == 1
    run(seeds=[0], learning_rate=1e-3, overwrite=True)
    assert len(read_results(folder / "results.jsonl")) == 1
    (path,) = (folder / "predictions").rglob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(ValueError, match="has changed since it was made"):
        report(read_runs([folder.parent]))


def test_the_best_of_a_search_counts_and_is_found_once(
    make_config, model_folder, started, stopping
):
    """More seeds take what the first ones have chosen, on rows that are not reported."""
    options = {"num_epochs": 4, "search": {"learning_rate": [1e-7, 5e-3]}}
    options |= {"random_init_control": True}
    stopping(3, lambda: evaluate(make_config(**options), str(model_folder)))
    started.clear()
    evaluate(make_config(**options), str(model_folder))
    assert len(started) == 4 + 2  # trials of both roles, which a stop has lost
    evaluate(make_config(**options, seeds=[0, 1]), str(model_folder))
    assert len(started) == 6 + 2
    for result in current_results(folder_of(make_config())):
        assert result.hyper_parameters["learning_rate"] == 5e-3
        assert result.search["chosen"] == {"learning_rate": 5e-3}
        assert result.search["num_trials"] == 2
        assert result.num_train_examples == 140
        assert 0 < result.search["num_held_out"] < 140


@pytest.mark.slow
def test_processes_give_the_scores_of_one(make_config, model_folder, tmp_path):
    """Processes that import torch anew take most of the time."""
    options = {"seeds": [0, 1, 2], "num_epochs": 1, "keep_models": True}
    evaluate(make_config(**options), str(model_folder))
    one = folder_of(make_config())
    config = make_config(**options, num_processes=2)
    config = config.model_copy(update={"output_dir": str(tmp_path / "other")})
    evaluate(config, str(model_folder))
    found, expected = (current_results(folder) for folder in (folder_of(config), one))
    assert [(r.key, r.metrics) for r in found] == [(r.key, r.metrics) for r in expected]
    assert files_of(folder_of(config)) == files_of(one)
    assert len(list((one / "models" / "klue-ynat").iterdir())) == 3


def test_a_degenerate_fine_tuning_stays_in_the_results(make_config, model_folder):
    config = make_config(
        learning_rate=1e30, warmup_fraction=0.0, num_epochs=1, keep_models=True
    )  # there is no network to keep
    evaluate(config, str(model_folder))
    folder = folder_of(config)
    record = json.loads((folder / "results.jsonl").read_text())
    assert record["value"] is None
    assert record["degenerate"].startswith("loss is nan")
    _, [line, *_] = read_predictions(folder / "predictions/klue-ynat/pretrained-0.jsonl")
    assert (line["prediction"], line["probabilities"]) == (None, None)
    assert json.loads((folder / "manifest.json").read_text())["counts"]["degenerate"] == 1
    assert not (folder / "models").exists()


def test_a_task_of_ones_own_is_scored_and_reported_as_others(
    make_config, model_folder, started, tmp_path
):
    """Other data of the same name are other fine-tunings."""
    rows = [f"{row['title']} {n},{row['label']}" for n, row in enumerate(topic_rows(60, "own"))]
    file = write(tmp_path / "topics.csv", "\n".join(["headline,topic", *rows]))
    options = {"num_epochs": 1, "min_steps": 1, "tasks": []}
    options["own_tasks"] = [{"train": str(file)}]
    config = make_config(bag_of_words=True, data_dir=None, **options)
    evaluate(config, str(model_folder))
    evaluate(config, str(model_folder))
    assert started == [("topics", "pretrained", 0)]
    folder = folder_of(config)
    records = read_results(folder / "results.jsonl")
    assert [(r.suite, r.task, r.split, r.metric) for r in records] == [
        ("own", "topics", "train-split-eval", "accuracy")
    ] * 2
    report(read_runs([Path(config.output_dir)]), tmp_path / "page", data_dirs=[tmp_path])
    assert "topics" in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    write(file, f"{file.read_text(encoding='utf-8')}\n새 축구,스포츠")
    evaluate(config, str(model_folder))
    assert len(started) == 2


# --- beside the run's own encoder


def refuse(*_: object) -> None:
    raise AssertionError("there is no checkpoint to export")


@pytest.fixture
def adapted(make_config, model_folder, tmp_path):
    """A run whose encoder continues from a model that recommends settings."""

    def run(start: Path | str = tmp_path / "start", **options: object) -> RunConfig:
        few = {"seeds": [0, 1], "num_epochs": 1, "max_train_examples": 28}
        config = make_config(**(few | {"random_init_control": True} | options))
        pretrain = config.pretrain.model_copy(update={"initial_model": str(start)})
        return config.model_copy(update={"pretrain": pretrain})

    settings = {"recipe": "electra", "layer_lr_decay": 0.9, "pooling": "mean"}
    shutil.copytree(model_folder, tmp_path / "start")
    (tmp_path / "start" / "finetuning.json").write_text(json.dumps(settings))

    def export(folder: Path) -> dict[str, int]:
        shutil.copytree(model_folder, folder / "discriminator")
        return {}

    run_stage(Stage("export", Path(run().output_dir) / "export", {}), export)
    return run


def test_both_are_fine_tuned_alike_and_the_difference_is_printed_and_reported(adapted, caplog):
    caplog.set_level("INFO", "electrify")
    config = adapted()
    evaluate(config, None)
    evaluate_start(config, False, refuse)
    folder = Path(config.output_dir)
    own, start = (current_results(folder / name) for name in ("evaluate", "evaluate-start"))
    assert {record.role for record in own} == {"pretrained", "random-init"}
    assert [(of.role, of.seed) for of in start] == [("pretrained", 0), ("pretrained", 1)]
    alike = {json.dumps(record.hyper_parameters, sort_keys=True) for record in [*own, *start]}
    assert len(alike) == 1
    assert own[0].hyper_parameters["layer_lr_decay"] == 0.9
    assert own[0].recommended["pooling"] == start[0].recommended["pooling"] == "mean"
    last = caplog.records[-1].getMessage()
    assert "adapted" in last
    assert "over start (95 % CI" in last
    report(read_runs([folder]))
    assert "than start on" in (folder / "report.md").read_text(encoding="utf-8")
    assert "not fine-tuned alike" not in (folder / "report.md").read_text(encoding="utf-8")
    caplog.clear()
    evaluate_start(adapted(start_control=False), False, refuse)
    assert not caplog.records


def test_what_was_fine_tuned_otherwise_is_named_where_it_is_compared(adapted, model_folder, caplog):
    caplog.set_level("INFO", "electrify")
    evaluate(adapted(), None)
    evaluate(adapted(recipe="auto", random_init_control=False), str(model_folder), name="other")
    (warning,) = (r.getMessage() for r in caplog.records if "not fine-tuned alike" in r.message)
    assert "other" in warning
    assert "recipe electra and klue" in warning
    table = [r.getMessage() for r in caplog.records if r.getMessage().startswith("klue-ynat macro")]
    assert any(line.split()[2] == "other" for line in table)  # --name
    folder = Path(adapted().output_dir)
    report(read_runs([folder]))
    first_screen = (folder / "report.md").read_text(encoding="utf-8").partition("## ")[0]
    assert "not fine-tuned alike on klue-ynat" in first_screen
    assert "recipe electra and klue" in first_screen or "recipe klue and electra" in first_screen


def test_a_start_that_is_a_checkpoint_is_exported_and_an_unreadable_one_left_out(
    adapted, model_folder, tmp_path, caplog
):
    checkpoint = tmp_path / "earlier" / "pretrain" / "checkpoint-9"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text("{}")
    evaluate(adapted(), None)
    for start in (tmp_path / "earlier", checkpoint):
        config, exported = adapted(start), []

        def export(path: Path, folder: Path, exported: list[Path] = exported) -> None:
            exported.append(path)
            shutil.copytree(model_folder, folder, dirs_exist_ok=True)

        evaluate_start(config, False, export)
        assert exported == [checkpoint]
    (tmp_path / "none").mkdir()
    evaluate_start(adapted(tmp_path / "none"), True, refuse)
    assert "is not scored" in caplog.text
    folder = Path(adapted().output_dir)
    shutil.rmtree(folder / "evaluate-start")
    begun = Stage("pretrain", folder / "pretrain", {}, {"pretrain.initial_model": "other"})
    run_stage(begun, lambda _: {})
    evaluate_start(adapted(), False, refuse)  # trained on since
    assert "has changed since this run began from it" in caplog.text
    assert not (folder / "evaluate-start").exists()


def test_checkpoints_are_scored_in_folders_of_their_own(make_config, model_folder):
    """The oldest first, without baselines, on the largest part; the export's is scored already."""
    options = {"seeds": [0, 1], "random_init_control": True, "num_epochs": 1}
    config, steps = make_config(train_fractions=[0.5, 1.0], **options), list[int]()
    run = Path(config.output_dir)
    for step in (1000, 90, 180):
        write(run / f"pretrain.partial/checkpoint-{step}/state.json", {"step": step})
    manifest = {"files": {}, "config": {}, "inputs": {}, "digest": "d", "counts": {}}
    counts, inputs = {"checkpoint": "checkpoint-180"}, {"export": "d"}
    for stage, own in {"export": {"counts": counts}, "evaluate": {"inputs": inputs}}.items():
        (run / stage).mkdir()
        write_manifest(run / stage, manifest | own)

    def export(checkpoint: Path, folder: Path) -> None:
        steps.append(int(checkpoint.name.split("-")[-1]))
        shutil.copytree(model_folder, folder, dirs_exist_ok=True)

    evaluate_checkpoints(config, [], False, export)
    assert steps == [90, 1000]
    evaluate_checkpoints(config, [180], False, export)  # it is asked for
    found = read_run(run)
    assert [*found.checkpoint_evaluations] == sorted([*steps]) == [90, 180, 1000]
    assert found.evaluations == {"evaluate": ()}  # they are no further encoders
    for step, records in found.checkpoint_evaluations.items():
        keys = [(r.role, r.seed, r.train_fraction) for r in records]
        assert keys == [("pretrained", 0, 1.0), ("pretrained", 1, 1.0)]
        assert records[0].model_path == str(run / f"pretrain.partial/checkpoint-{step}")
