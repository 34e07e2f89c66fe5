"""Tasks are listed, checked and read where nothing is installed but what cleans text."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tasks import registry
from electrify.config.fields import TASK_NAMES
from tests.benchmarks.records import OFFICIAL_FILES, write

# what learns and scores; of these the corpus stage has transformers, datasets and scipy
_LEARNING = ("torch", "transformers", "datasets", "sklearn", "scipy", "matplotlib")
_NOT_OF_THE_CORPUS_STAGE = ("torch", "sklearn", "safetensors", "tensorboard")


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tasks_are_listed_a_config_checked_and_wrong_names_told_without_what_learns(tmp_path):
    """Whose import takes seconds; a wrong name is told before torch and transformers."""
    place, shipped = str(tmp_path), "model/shipped/ko-modern/discriminator"
    says = f"print(); print(*(name for name in {_LEARNING} if name in sys.modules))"
    program = "import sys\nimport benchmarks.tasks.registry\nfrom electrify.cli import main"
    for words in (["ls"], ["validate", "configs/scratch.toml", "--set=output_dir='out/none'"]):
        program += f"\nassert main({words}) == 0"
    program += f"\n{says}; print('now')"
    for words in (
        ["evaluate", "--model", shipped, "--task", "klue-nope"],
        ["evaluate", "--model", shipped, "--task", "klue-ynat", "--data-dir", place],
        ["evaluate", "--model", place, "--task", "klue-ynat", "--data-dir", place],
        ["report", place],
        ["page", place, "--output", f"{place}/page"],
        ["inspect", f"{place}/none", "text"],
    ):
        program += f"\nassert main({words}) == 1"
    first, second = run(f"{program}\n{says}").split("\nnow\n")
    assert first.rsplit("\n", 1)[1] == ""
    assert not {*second.rsplit("\n", 2)[-2].split()} & {"torch", "transformers"}


def test_texts_of_every_kind_of_task_are_read_without_what_learns(tmp_path):
    data, names = tmp_path / "data", (*OFFICIAL_FILES,)
    for name, content in OFFICIAL_FILES.values():
        write(data / name, content)
    out = run(
        f"import sys\nfor name in {_NOT_OF_THE_CORPUS_STAGE}: sys.modules[name] = None\n"
        "from pathlib import Path\nfrom benchmarks.tasks.texts import named_texts, write_texts\n"
        f"texts = named_texts({names}, [Path({str(data)!r})])\n"
        f"for p in write_texts(texts, Path({str(tmp_path / 'texts')!r})): "
        "print(p.stem)"
    )
    assert out.split() == [*names]


def test_every_record_can_be_named_and_every_name_has_a_record():
    assert set(TASK_NAMES) == registry.TASKS.keys()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\nreported = ", "\nreportd = ", r"task korean-.*: no field 'reportd' in "),
        ("\nunlabelled = []", "", "task korean-nsmc: test is reported, and unlabelled"),
    ],
)
def test_a_record_that_cannot_be_scored_is_refused(tmp_path, old, new, message):
    suite = Path(registry.__file__).with_name("suites") / "korean.toml"
    text = suite.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(ValueError, match=message):
        registry.read_suite(write(tmp_path / "korean.toml", text.replace(old, new, 1)))
