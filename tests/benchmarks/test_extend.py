"""An evaluation that gets more jobs keeps what it has and ends as one of all jobs at once."""

import shutil
from pathlib import Path

import pytest

import benchmarks.finetune.jobs
from benchmarks.evaluate import evaluate
from benchmarks.results.results import MEASURED, read_results
from electrify.config.run import RunConfig
from electrify.system.progress import Stopped

YNAT = "ynat/ynat-v1.1_{}.json"


@pytest.fixture
def started(monkeypatch):
    """Tasks and seeds of jobs in the order they were started."""
    seen = []
    real = benchmarks.finetune.jobs.finetune

    def finetune(features, model, variant, seed, *rest):
        seen.append((features.task.name, variant, seed))
        return real(features, model, variant, seed, *rest)

    monkeypatch.setattr(benchmarks.finetune.jobs, "finetune", finetune)
    return seen


@pytest.fixture
def data(ynat_folder, tmp_path) -> Path:
    """YNAT, and NSMC of the same words."""
    shutil.copytree(ynat_folder, tmp_path / "data")
    folder = tmp_path / "data" / "nsmc"
    folder.mkdir()
    for split in ("train", "test"):
        rows = [f"{n}\t{'국회' if n % 2 else '증시'} 오늘\t{n % 2}" for n in range(40)]
        path = folder / f"ratings_{split}.txt"
        path.write_text("\n".join(["id\tdocument\tlabel", *rows]), encoding="utf-8")
    return tmp_path / "data"


def folder_of(config: RunConfig) -> Path:
    (folder,) = [p for p in Path(config.output_dir).glob("evaluate-*") if p.suffix != ".partial"]
    return folder


def records(config: RunConfig) -> dict[object, object]:
    found = read_results(folder_of(config) / "results.jsonl")
    return {r.job: r.model_copy(update=dict.fromkeys(MEASURED, 0)) for r in found}


def predictions(config: RunConfig) -> dict[str, bytes]:
    folder = folder_of(config) / "predictions"
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.jsonl")}


def test_seeds_parts_tasks_and_the_control_are_added(
    make_config, model_folder, started, data, tmp_path
):
    first = make_config(seeds=[0, 1], num_epochs=1, data_dir=str(data))
    more = make_config(
        seeds=[0, 1],
        num_epochs=1,
        data_dir=str(data),
        tasks=["klue-ynat", "korean-nsmc"],
        random_init_control=True,
        train_fractions=[1.0, 0.5],
        tasks_options={"klue-ynat": {"seeds": [1, 0, 2]}, "korean-nsmc": {"batch_size": 4}},
    )
    evaluate(first, str(model_folder), overwrite=False)
    kept = set(started)
    assert kept == {("klue-ynat", "pretrained", 0), ("klue-ynat", "pretrained", 1)}
    started.clear()
    evaluate(more, str(model_folder), overwrite=False)
    assert len(started) == 18  # (3 + 2 seeds) x 2 parts x 2 models, but for two
    at_once = more.model_copy(update={"output_dir": str(tmp_path / "at once")})
    evaluate(at_once, str(model_folder), overwrite=False)
    assert records(more) == records(at_once)
    assert predictions(more) == predictions(at_once)
    started.clear()
    evaluate(more, str(model_folder), overwrite=False)
    assert not started


def test_a_stop_while_more_is_done_loses_nothing(make_config, model_folder, started, monkeypatch):
    first = make_config(seeds=[0], num_epochs=1)
    more = make_config(seeds=[0, 1, 2], num_epochs=1)
    evaluate(first, str(model_folder), overwrite=False)
    before = records(first), predictions(first)
    real = benchmarks.finetune.jobs.finetune

    def stopped(*arguments):
        if arguments[3] == 2:
            raise Stopped("here")
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(benchmarks.finetune.jobs, "finetune", stopped)
        with pytest.raises(Stopped):
            evaluate(more, str(model_folder), overwrite=False)
    assert (records(first), predictions(first)) == before
    started.clear()
    evaluate(more, str(model_folder), overwrite=False)
    assert [seed for _, _, seed in started] == [2]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seeds": [0, 1, 2], "learning_rate": 3e-3}, "learning_rate changed"),
        ({"seeds": [0]}, "seeds changed"),  # a seed would be lost
        ({"seeds": [0, 1, 2], "tasks_options": {"klue-ynat": {"batch_size": 4}}}, "made otherwise"),
    ],
)
def test_what_is_done_otherwise_is_refused(make_config, model_folder, changes, reason):
    evaluate(make_config(seeds=[0, 1], num_epochs=1), str(model_folder), overwrite=False)
    with pytest.raises(ValueError, match=reason):
        evaluate(make_config(num_epochs=1, **changes), str(model_folder), overwrite=False)


def test_other_data_or_another_model_is_refused(make_config, model_folder, data, tmp_path):
    model = tmp_path / "encoder"
    shutil.copytree(model_folder, model)
    evaluate(make_config(seeds=[0], num_epochs=1, data_dir=str(data)), str(model), False)
    more = make_config(seeds=[0, 1], num_epochs=1, data_dir=str(data))
    dev = data / YNAT.format("dev")
    text = dev.read_text(encoding="utf-8")
    dev.write_text(text.replace("오늘", "내일"), encoding="utf-8")
    with pytest.raises(ValueError, match="made otherwise"):
        evaluate(more, str(model), overwrite=False)
    dev.write_text(text, encoding="utf-8")
    (model / "config.json").write_text((model / "config.json").read_text() + "\n")
    with pytest.raises(ValueError, match="made otherwise"):
        evaluate(more, str(model), overwrite=False)


def test_damaged_predictions_are_not_carried_over(make_config, model_folder):
    config = make_config(seeds=[0], num_epochs=1)
    evaluate(config, str(model_folder), overwrite=False)
    (path,) = (folder_of(config) / "predictions").rglob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-2])
    more = make_config(seeds=[0, 1], num_epochs=1)
    with pytest.raises(ValueError, match="has changed since it was made"):
        evaluate(more, str(model_folder), overwrite=False)
    assert len(records(config)) == 1
