"""Data sets and models of the hub, with all that the hub may answer."""

import json
import re
import shutil
from typing import Any

import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel
from transformers import ElectraForPreTraining

from benchmarks.results.results import RESULTS, read_results
from benchmarks.tasks.load import REVISIONS
from benchmarks.tasks.registry import TASKS
from tests.benchmarks.conftest import build_tokenizer, save_electra
from tests.hub.conftest import Electrify, Ended
from tests.hub.rows import card, parquet
from tests.hub.server import Files, Hub

TINY = "made/tiny"
SUITES = ["glue", "squad", "xquad", "klue", "korean", "kobest", "wikiann", "xnli", "paws-x"]
FAST: dict[str, object] = {"seeds": [0], "random_init_control": False, "bag_of_words": False}
FAST |= {"max_sequence_length": 32, "num_epochs": 1.0, "device": "cpu"}
SENTENCES = [f"오늘은 날씨가 맑아서 공원에 갔다. {n}번째 사람이 크게 웃었다." for n in range(12)]
_DEAD = "connection to the hub fails .*look at the network"
# what the hub may answer, and the words of the one line that the user reads
FAULTS = [
    ("reset", _DEAD),
    pytest.param("slow", _DEAD, marks=pytest.mark.slow),
    (401, "nothing of this name that you may use; if it is private, log in: hf auth login"),
    (403, "ask for access on its page"),
    (429, "too many requests"),
    (503, r"the hub fails \(503\)"),
]


@pytest.fixture(scope="module")
def tiny(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A random model on the hub."""
    words = ["서", "##울", "서울", "한국", "간다", "하나"]
    folder = tmp_path_factory.mktemp("tiny") / "model"
    save_electra(folder, ElectraForPreTraining, 1, build_tokenizer(words))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    hub.add("models", TINY, files)
    return files


def _evaluate(
    electrify: Electrify, *words: str, model: str = TINY, name: str = "", **options: object
) -> Ended:
    changes = [f"--set=evaluate.{n}={json.dumps(value)}" for n, value in (FAST | options).items()]
    named = ["--name", name] if name else []
    return electrify("evaluate", "--model", model, "--data-dir", "hub", *named, *words, *changes)


def _add_text(hub: Hub, name: str) -> None:
    rows = [{"text": text, "url": f"u{n}"} for n, text in enumerate(SENTENCES)]
    hub.add("datasets", name, {"train-00000-of-00001.parquet": parquet(rows)})


def _clean(electrify: Electrify, name: str, more: str = "") -> Ended:
    label = name.replace("/", "-")
    source = f'{{ kind = "huggingface", language = "ko", path = "{name}" }}'
    config = f'name = "{label}"\noutput_dir = "out/{label}"\n[clean]\nsources = [{source}]\n{more}'
    (electrify.folder / f"{label}.toml").write_text(config, encoding="utf-8")
    return electrify("clean", f"{label}.toml")


@pytest.mark.parametrize(("fault", "words"), FAULTS)
def test_a_fault_of_the_hub_is_one_line(hub, electrify, tiny, fault, words):
    """Before anything is in the cache. A data set that fails is not asked for by each task."""
    shutil.rmtree(electrify.cache, ignore_errors=True)  # another test may have read all
    text, model = f"made/text-{fault}", f"made/model-{fault}"
    hub.add("models", model, tiny)
    _add_text(hub, text)
    hub.faults.update(dict.fromkeys([text, model, "klue/klue"], fault))
    ends = {
        text: _clean(electrify, text),
        model: _evaluate(electrify, "--suite=klue", model=model),
        "klue-ynat": _evaluate(electrify, "--suite=klue"),
    }
    for name, ended in ends.items():
        assert re.search(f"{name}.*{words}", ended.error)


@pytest.mark.parametrize("fault", [503, 429])
def test_a_busy_hub_is_asked_again(hub: Hub, electrify: Electrify, fault: int):
    name = f"made/busy-{fault}"
    _add_text(hub, name)
    hub.faults[name] = (fault, 2)
    assert _clean(electrify, name).status == 0


def test_a_task_of_each_kind_is_scored(electrify: Electrify, tiny: Files):
    names = {type(task): name for name, task in TASKS.items() if task.hub}.values()
    assert _evaluate(electrify, *[f"--task={name}" for name in names], name="few").status == 0
    results = read_results(electrify.folder / f"out/few/evaluate/{RESULTS}")
    assert {*names} == {result.task for result in results}


def test_a_data_set_without_a_record_is_a_task_of_ones_own(hub, electrify, tiny):
    """In one command: columns are guessed, class ids have names, a test split without labels is
    left out."""
    features = {"label": ClassLabel(names=["no", "yes"])}
    files = {}
    for split in ("train", "validation", "test"):
        rows = [
            {"paragraph": f"{split} {text}", "question": "맑다"}
            | {"label": -1 if split == "test" else n % 2}
            for n, text in enumerate(SENTENCES)
        ]
        files[f"boolq/{split}-0.parquet"] = parquet(rows, features)
    size = "dataset_info:\n- config_name: boolq\n  download_size: 1700000\n---\n"
    about = card({"boolq": ("train", "validation", "test")})
    files["README.md"] = about.replace("\n---\n", f"\n{size}").encode()
    commit = hub.add("datasets", "made/boolq", files)
    words = ["--own-task=made/boolq:boolq"]
    ended = _evaluate(electrify, *words, name="own")
    assert f"own task made/boolq:boolq: commit {commit}" in ended.text
    assert "made/boolq: 1.7 MB of data to download" in ended.text
    assert "its test split has no labels and is left out" in ended.text
    (result,) = read_results(electrify.folder / f"out/own/evaluate/{RESULTS}")
    assert (result.task, result.split, result.num_examples) == ("boolq-boolq", "dev", 12)
    assert result.own_task
    assert result.own_task["labels"] == ["no", "yes"]
    assert result.own_task["text_fields"] == ["paragraph", "question"]
    gone = _evaluate(electrify, "--own-task=made/gone:x", name="gone")
    assert "nothing of this name" in gone.error


def test_text_is_compared_with_all_tasks_of_the_hub(hub: Hub, electrify: Electrify):
    """All from the hub, each data set at the commit that we name, where we name one."""
    _add_text(hub, "made/text")
    more = f'decontaminate_against = {json.dumps(SUITES)}\ndecontaminate_data_dir = "hub"\n'
    assert _clean(electrify, "made/text", more).status == 0
    folder = electrify.folder / "out/made-text"
    (file,) = (folder / "clean").glob("documents-*.parquet")
    assert sorted(pq.read_table(file)["text"].to_pylist()) == sorted(SENTENCES)
    texts = {path.stem for path in (folder / "benchmark-texts").iterdir()}
    assert {name for name, task in TASKS.items() if task.hub} <= texts
    lines = (folder / "benchmark-texts/glue-mnli.jsonl").read_text(encoding="utf-8").splitlines()
    splits = {json.loads(line)["split"] for line in lines}  # the diagnostics are of another set
    assert splits == {"dev", "dev_mismatched", "test", "test_mismatched", "ax"}
    asked = "\n".join(hub.requests)
    for name, asked_for in REVISIONS.items():
        revision = hub.revisions["datasets", name][asked_for]
        assert f"GET /datasets/{name}/resolve/{revision}/" in asked


def test_all_jobs_load_one_commit_of_a_model(hub: Hub, electrify: Electrify, tiny: Files):
    """Where the model moves between two of them. The same command then refuses the moved one."""
    first = hub.add("models", "made/moving", tiny)
    moved = tiny | {"README.md": b"new weights"}

    def move(request: str) -> None:
        if request == f"GET /made/moving/resolve/{first}/model.safetensors":
            hub.add("models", "made/moving", moved)

    hub.watch = move
    options: dict[str, Any] = {"model": "made/moving", "name": "moving", "seeds": [0, 1]}
    ended = _evaluate(electrify, "--task=korean-korsts", **options)
    assert f"made/moving is read at its commit {first}" in ended.text
    asked = re.findall(r"/made/moving/resolve/(\w+)/model.safetensors", "\n".join(hub.requests))
    assert {*asked} == {first}
    again = _evaluate(electrify, "--task=korean-korsts", **options)
    assert "has the scores of other weights" in again.error


def test_without_the_hub_the_cache_is_read(hub: Hub, electrify: Electrify, tiny: Files):
    tasks = ("--task=korean-korsts", "--task=klue-ynat")
    assert _evaluate(electrify, *tasks, name="online").status == 0
    hub.faults["*"] = "reset"
    ended = _evaluate(electrify, *tasks, name="offline", seeds=[3])
    assert "only what is in the cache here is read" in ended.text
    assert ended.status == 0
    unknown = _evaluate(electrify, model="made/no")
    assert re.search("not from the hub: .*HF_HUB_OFFLINE", unknown.error)
    # its client would ask six times, some 30 s, and print each try
    assert "Retrying" not in ended.text + unknown.text
