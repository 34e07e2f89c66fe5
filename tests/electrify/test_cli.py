"""The command line: errors on stderr with status 1, help, and what stops gracefully."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from electrify.check import describe_config, list_runs
from electrify.cli import main, with_flags
from electrify.config.load import load_config
from electrify.stage.folder import Stage
from electrify.stage.plan import stage_options
from electrify.stage.run import run_stage
from tests.pipeline.cases import read_cases

DEMO = "configs/demo.toml"
SMALL = "configs/ko-small.toml"
CASES = read_cases(__file__)


@pytest.mark.parametrize(
    ("words", "says"),
    [*CASES["refused"], (["inspect", "my/model", "가" * 400, "README.md"], "'README.md', a file")],
)
def test_what_makes_no_sense_is_refused_and_named(words, says, capsys):
    try:
        status = main(words)
    except SystemExit as left:
        status = left.code
    assert status in (1, 2)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["init", "--help"], ["--version"], ["trian"]])
def test_what_needs_no_library_imports_none(words):
    """Each of these would cost more than all that is left."""
    heavy = {"apache_beam", "fsspec", "matplotlib", "numpy", "sklearn", "torch"}
    program = (
        "import contextlib, sys\nfrom electrify.cli import main\n"
        f"with contextlib.suppress(SystemExit):\n    main({words!r})\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert heavy.isdisjoint(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("verb", "needed"),
    [
        ("train-vocab", "electrify clean"),
        ("encode", "electrify clean"),
        ("pretrain", "electrify encode"),
        ("export", "electrify pretrain"),
        ("evaluate", "electrify export"),
    ],
)
def test_a_missing_stage_names_the_command_that_makes_it(verb, needed, tmp_path: Path, capsys):
    assert main([verb, "configs/demo.toml", "--set", f"output_dir='{tmp_path / 'run'}'"]) == 1
    assert f"run first: {needed} CONFIG" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["validate", "clean", "pretrain"])
def test_an_output_without_room_is_refused_before_work(verb, tmp_path: Path, capsys, monkeypatch):
    full = shutil.disk_usage(tmp_path)._replace(free=10 * 2**20)
    monkeypatch.setattr("electrify.check.shutil.disk_usage", lambda place: full)
    assert main([verb, DEMO, "--set", f"output_dir='{tmp_path / 'new' / 'run'}'"]) == 1
    assert "10 MiB are free there" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main([verb, DEMO, "--set", f"output_dir='{tmp_path / 'file' / 'run'}'"]) == 1
    assert f"{tmp_path / 'file'} is a file" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["validate", "run"])
@pytest.mark.parametrize(("key", "named"), CASES["lacking"])
def test_what_a_run_lacks_is_refused_before_work(verb, key, named, tmp_path: Path, capsys):
    (tmp_path / "letter.docx").touch()
    key, named = (text.replace("FOLDER", str(tmp_path)) for text in (key, named))
    assert main([verb, DEMO, "--set", f"output_dir='{tmp_path / 'run'}'", "--set", key]) == 1
    assert named in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_quick_evaluation_is_small_and_gives_way_to_set(monkeypatch):
    seen = []
    verb = "benchmarks.evaluate.evaluate"
    monkeypatch.setattr(verb, lambda config, *_, **__: seen.append(config.evaluate))
    folder = '/data/o\'neil "한글"'
    words = ["evaluate", "--model", "a/b", "--task", "klue-ynat", "--quick", "--data-dir", folder]
    assert main([*words, "--set", "evaluate.num_epochs=3.0"]) == 0
    assert main(words) == 0
    found = [(of.seeds, of.max_train_examples, of.num_epochs) for of in seen]
    assert found == [((0,), 1000, 3.0), ((0,), 1000, 2.0)]
    assert seen[0].data_dirs == (Path(folder),)


def test_beam_options_go_through_untouched(monkeypatch):
    seen = []
    monkeypatch.setattr("electrify.check.check_corpus", lambda *_: None)
    monkeypatch.setattr("pipeline.clean.clean", lambda config, beam, *_: seen.append(beam))
    main(["clean", "configs/demo.toml", "--", "--runner=FlinkRunner", "--", "--set"])
    assert seen == [["--runner=FlinkRunner", "--", "--set"]]


def test_configs_and_every_kind_of_run_are_listed(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for stage in (
        *("demo/clean", "demo/evaluate-checkpoint-500", "demo/evaluate-checkpoint-1000"),
        *("scored/evaluate-bert", "scored/robustness", "scored/fairness-bert", "begun/clean"),
        *("ablation-a/lr/seed-0/clean", "group/a/clean", "demo/export-checkpoint-50"),
        *("scored/clean-2025", "scored/onnx-int8"),  # no stages
    ):
        Path("out", stage).mkdir(parents=True)
        Path("out", stage, "manifest.json").touch()
    for name in ("begun/encode.partial", "begun/shards.partial", "page", "page/clean"):
        Path("out", name).mkdir()
    Path("configs").mkdir()
    Path("configs/a.toml").write_text("nmae = 1\nsede = 2")
    lines = list_runs(Path("out"))
    assert lines[lines.index("runs") + 1 :] == [
        "  out/ablation-a/lr/seed-0  clean",
        "  out/begun  clean, shards (partial)",
        "  out/demo  clean, export-checkpoint-50, evaluate-checkpoint-500, "
        "evaluate-checkpoint-1000",
        "  out/group/a  clean",
        "  out/scored  robustness, evaluate-bert, fairness-bert",
    ]
    (line,) = (line for line in lines if "configs/a.toml" in line)
    assert "INVALID: configs/a.toml: " in line
    assert "\n" not in line
    listed = printed(capsys, "ls")
    assert listed["runs"]["out/begun"] == {"done": ["clean"], "begun": ["shards"]}
    assert {DEMO, "configs/a.toml"} <= set(listed["configs"])


def printed(capsys, *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return cast("dict[str, Any]", json.loads(capsys.readouterr().out))


def test_json_says_what_the_lines_say(capsys):
    override = "output_dir=memory://runs/demo"  # which nobody opens
    config = load_config(DEMO, [override])
    checked = printed(capsys, "validate", DEMO, "--set", override)
    assert checked["config"] == config.model_dump(mode="json")
    assert f"output: {config.output_dir}" in checked["notes"]
    assert printed(capsys, "doctor")["is_sound"] is True


def test_every_line_of_validate_can_be_set():
    """A config is told by its lines alone, tables in lists aside."""
    options = ["evaluate.tasks_options={'squad-1.1' = {num_epochs = 1.0}}", "vocab.size=900"]
    config = load_config(DEMO, options)
    lines = [line.replace(" = ", "=", 1) for line in describe_config(config) if line[0] != "#"]
    plain = [line for line in lines if "]." not in line.partition("=")[0]]
    assert 'evaluate.tasks_options."squad-1.1".num_epochs=1.0' in plain
    assert load_config(DEMO, plain) == config
    assert "# evaluate.learning_rate is not set" in describe_config(load_config(SMALL))


@pytest.mark.parametrize(
    ("verb", "message", "said"),
    [
        ("run", "or `overwrite` of `evaluate.data_dir`", "or --overwrite of `evaluate.data_dir`"),
        ("evaluate", "or `evaluate.data_dir`", "or --data-dir"),
        ("evaluate", "`evaluate.batch_size=9`, `name`", "--set evaluate.batch_size=9, --name"),
        ("evaluate", "`a.b=it's.txt`", "--set 'a.b=it'\"'\"'s.txt'"),
        ("ls", "`electrify ls` of `transformers`", "`electrify ls` of `transformers`"),
    ],
)
def test_a_message_names_options_as_the_caller_has_them(verb, message, said):
    assert with_flags(verb, message) == said


def test_a_host_that_exports_the_world_size_loses_no_verb(monkeypatch, capsys):
    """It starts nothing; torchrun gives each process its LOCAL_RANK, too."""
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "1")
    assert main(["ls"]) == 0
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert main(["ls"]) == 2
    assert "torchrun is for pretrain alone" in capsys.readouterr().err


def test_a_run_of_another_length_is_refused_before_it_trains_on(tmp_path: Path, capsys):
    """The export and the scores are of the trained network that is there."""
    config = load_config(DEMO, [f"output_dir='{tmp_path}'"])
    for name in ("pretrain", "export"):
        options = stage_options(config, name)
        run_stage(Stage(name, tmp_path / name, options), lambda folder: {})
    before = sorted(tmp_path.rglob("*"))
    words = ["run", DEMO, "--set", f"output_dir='{tmp_path}'", "--set", "pretrain.num_steps=1500"]
    assert main(words) == 1
    assert "electrify export CONFIG --overwrite" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_run_reads_its_config_once(monkeypatch, tmp_path: Path):
    """An edit while stages work must not give a run of two configs."""
    path = tmp_path / "run.toml"
    text = Path(DEMO).read_text(encoding="utf-8").replace("out/demo", str(tmp_path / "run"))
    path.write_text(text, encoding="utf-8")
    seeds = []

    def work(config, *_, **__):
        path.write_text(text.replace("seed = 0", "seed = 1"), encoding="utf-8")
        seeds.append(config.seed)

    stages = ["pipeline.clean.clean", "vocab.train.train_vocab", "vocab.encode.encode"]
    stages += ["model.pretrain.pretrain", "model.export.export", "benchmarks.evaluate.evaluate"]
    for stage in stages:
        monkeypatch.setattr(stage, work)
    monkeypatch.setattr("benchmarks.report.read_runs", lambda *_: [])
    monkeypatch.setattr("benchmarks.report.report", lambda *_: "page")
    monkeypatch.setattr("benchmarks.analysis.mistakes.marked_lines", lambda *_: [])
    assert main(["run", str(path)]) == 0
    assert seeds == [0] * 6
