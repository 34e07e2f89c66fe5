"""`electrify validate` refuses what a stage would fail on hours later."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from electrify import check
from electrify.check import check_gpus, check_run, describe_run, evaluation_cost
from electrify.config.clean import Source
from electrify.config.load import parse_config
from electrify.config.run import RunConfig
from electrify.stage.plan import is_hub_name


@pytest.fixture
def config(tmp_path: Path):
    """A run on twenty documents, with other values of some keys."""
    words = [f"word{i}" for i in range(500)]
    text = json.dumps({"text": " ".join(words)})
    (tmp_path / "a.jsonl").write_text(f"{text}\n" * 20)

    def config(**sections: dict[str, object]) -> RunConfig:
        source = {"kind": "jsonl", "language": "en", "path": str(tmp_path / "*.jsonl")}
        raw = {"name": "x", "output_dir": str(tmp_path / "out"), "vocab": {"size": 500}}
        raw["clean"] = {"sources": [source]}
        for name, section in sections.items():
            raw[name] = raw.get(name, {}) | section if isinstance(section, dict) else section
        return parse_config(raw)

    return config


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"pretrain": {"device": "cuda"}}, r'pretrain\.device = "cuda"'),
        ({"evaluate": {"device": "cuda"}}, r'evaluate\.device = "cuda"'),
        (  # all problems at once
            {"vocab": {"extend": "none/vocab"}, "pretrain": {"initial_model": "./none"}},
            r"(?s)none/vocab.*no such folder",
        ),
        (
            {"pretrain": {"initial_model": "model/shipped/ko-modern/discriminator"}},
            r"does not fit the config: .*Set .*pretrain\.architecture = \"modern\"",
        ),
        ({"pretrain": {"initial_model": "none/such"}}, "none/such.*HF_HUB_OFFLINE"),
        ({"output_dir": "nosuch://bucket/run"}, "output_dir = 'nosuch://bucket/run'"),
        ({"evaluate": {"tasks": ["klue-ynat"], "data_dir": "hub"}}, "klue-ynat.*HF_HUB_OFFLINE"),
        ({"evaluate": {"suites": ["robustness"], "data_dir": "none"}}, "no data of klue-ynat"),
        ({"evaluate": {"suites": ["fairness"], "tasks": ["glue-cola"]}}, "cannot look at glue-c"),
    ],
)
def test_what_cannot_work_is_named(config, sections, named, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=named):
        check_run(config(**sections))


def test_the_sizes_of_a_model_of_the_hub_are_compared(config, monkeypatch: pytest.MonkeyPatch):
    """By its config.json alone, and where the hub gives none there is nothing to say."""
    read: list[str] = []

    def download(name: str, file: str, revision: str | None) -> str:
        read.append(f"{name}/{file}")
        if name == "a/silent":
            raise OSError("the connection is lost")
        return f"model/shipped/ko-modern/discriminator/{file}"

    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    with pytest.raises(ValueError, match=r"'a/b' does not fit .*Set .*architecture = \"modern\""):
        check_run(config(pretrain={"initial_model": "a/b"}))
    check_run(config(pretrain={"initial_model": "a/silent"}))
    assert read == ["a/b/config.json", "a/silent/config.json"]


def test_a_folder_here_does_not_hide_a_model_of_the_hub(tmp_path, monkeypatch):
    (tmp_path / "klue").mkdir()  # with data, say
    monkeypatch.chdir(tmp_path)
    assert is_hub_name("klue/roberta-small")
    others = "./klue/roberta-small", "out/klue/export", "out/my run", "out/my--run"
    assert not any(map(is_hub_name, others))


def test_every_stage_has_a_cost(config, tmp_path: Path):
    (tmp_path / "own.csv").write_text("text,label\n" + "a good film,1\na bad film,0\n" * 20)
    own = {"own_tasks": [{"train": str(tmp_path / "own.csv")}], "seeds": [0, 1]}
    run = config(evaluate=own)
    lines = "\n".join(describe_run(run))
    stages = "clean", "train-vocab", "encode", "passes over the text"
    assert all(stage in lines for stage in stages)
    sources = [*run.clean.sources, Source(kind="jsonl", language="en", path="gs://b/*.jsonl")]
    partly = run.model_copy(update={"clean": run.clean.model_copy(update={"sources": sources})})
    assert "without 1 source(s) elsewhere" in describe_run(partly)[0]
    assert "4 fine-tunings" in evaluation_cost(run)[0][0]  # two seeds, two encoders
    searched = config(evaluate=own | {"search": {"learning_rate": [1e-4, 3e-4, 1e-3]}})
    assert "10 fine-tunings" in evaluation_cost(searched)[0][0]  # three trials of each encoder
    noisy = config(evaluate=own | {"suites": ["robustness"]})
    assert "8 fine-tunings" in evaluation_cost(noisy)[0][0]
    before = evaluation_cost(run)[1]
    (tmp_path / "own.csv").write_text(
        "text,label\n" + f"{'a good film ' * 30},1\na bad film,0\n" * 20
    )
    assert evaluation_cost(run)[1] > 5 * before  # long rows


def test_text_that_is_not_read_is_named_with_its_field(config):
    source = config().clean.sources[0].model_dump() | {"text_field": "body"}
    with pytest.raises(ValueError, match=r"a\.jsonl: .*no field 'body' \(there are: text\)"):
        describe_run(config(clean={"sources": [source]}))


@pytest.mark.parametrize("text", ["", '{"text": " "}\n'])
def test_a_source_without_text_is_named(config, tmp_path: Path, text):
    run = config()
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(ValueError, match=r"\*\.jsonl: no text in it"):
        describe_run(run)


def test_a_file_of_the_working_directory_is_not_ours(tmp_path: Path):
    for name in ("model.py", "pipeline.py", "benchmarks.py"):
        (tmp_path / name).write_text("raise SystemExit('the file of the working directory')")
    words = [sys.executable, "-m", "electrify", "validate", "configs/scratch.toml"]
    here = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path.cwd()), "HOME": str(tmp_path)}
    done = subprocess.run(words, cwd=tmp_path, env=here, capture_output=True, text=True)
    assert "of the working directory" not in done.stderr
    assert "configs/scratch.toml can be run" in done.stdout  # with the sample that comes with it


# --- this machine ---------------------------------------------------------------------------------

GIB = 2**30


def fake_torch(*cards: tuple[str, int, int, int]) -> SimpleNamespace:
    properties = [
        SimpleNamespace(name=name, major=major, minor=minor, total_memory=memory * GIB)
        for name, major, minor, memory in cards
    ]
    cuda = SimpleNamespace(
        is_available=lambda: bool(cards),
        device_count=lambda: len(cards),
        get_device_properties=lambda number: properties[number],
        mem_get_info=lambda number: (GIB, 0),
        get_arch_list=lambda: ["sm_75", "sm_80", "sm_90", "compute_90"],
    )
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(cuda="13.0"), __version__="2.13")


@pytest.mark.parametrize(
    ("card", "words", "is_usable"),
    [
        (("H100", 9, 0, 80), "GPU 0: H100, capability 9.0, 1 of 80 GiB free, CUDA 13.0", True),
        (("Tesla T4", 7, 5, 15), "no units for bf16, so precision is fp32", True),
        (("Tesla V100", 7, 0, 16), "built for sm_75, sm_80, sm_90, compute_90 alone", False),
    ],
)
def test_a_card_is_named_with_what_it_can_do(card, words, is_usable, monkeypatch):
    monkeypatch.setattr(check.importlib, "import_module", lambda name: fake_torch(card))
    ((line,), found) = check_gpus()
    assert words in line
    assert found == is_usable
    assert line.startswith("PROBLEM") == (not is_usable)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_card_that_torch_does_not_see_is_a_problem(is_there, monkeypatch):
    monkeypatch.setattr(check.importlib, "import_module", lambda name: fake_torch())
    monkeypatch.setattr(Path, "exists", lambda path: is_there)
    ((line,), found) = check_gpus()
    assert found == (not is_there)
    assert ("needs a driver of CUDA 13.0" in line) == is_there
