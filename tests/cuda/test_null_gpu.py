"""The tests of this folder on a GPU that is not there (`nullgpu/`): each card in a process of its
own, which sees it in place of CUDA's driver and libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda.nullgpu.card import CARDS, build, environment, is_null_gpu, what_is_missing

HERE = Path(__file__).parent
FINETUNE = str(HERE.parent / "benchmarks/training/test_finetune_cuda.py")
MISSING = what_is_missing()
pytestmark = [
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
    pytest.mark.skipif(is_null_gpu(), reason="runs the other tests on the null GPU"),
]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nullgpu")
    build(folder)
    return folder


def passes(library: Path, card: str, *arguments: str) -> None:
    """Run tests of this folder on a card."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=HERE.parents[1],
        env=environment(library, card),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_an_h100_is_asked_for_what_it_allows_and_a_replay_does_what_the_step_does(library: Path):
    """And a fine-tuning gives the numbers of the CPU, and waits for nothing."""
    few = "test_host or finetune or a_replay_does_what_the_step_does[modern]"
    files = str(HERE / "test_host.py"), str(HERE / "test_cuda.py"), FINETUNE
    passes(library, "H100", *files, "-k", few)


@pytest.mark.slow
def test_numbers_of_every_objective(library: Path):
    passes(library, "H100", str(HERE / "test_cuda.py"))


@pytest.mark.slow
@pytest.mark.parametrize("card", CARDS)
def test_each_card(card: str, library: Path):
    passes(library, card, "-m", "slow or not slow", str(HERE / "test_host.py"))
