"""Runs that are killed, damaged, starved of memory and disk: `make test-slow`, in minutes.

For longer series give options, and `-s` to see the figures:
`pytest -s tests/slow/test_kill.py --rounds 50 --seed 9`.
"""

import random
from pathlib import Path

import pytest

from tests.slow.runs import REPORT, arguments, finish


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """`--rounds`, else the test file's own modest number."""
    number: int = request.config.getoption("rounds") or request.module.ROUNDS
    return number


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.config.getoption("seed"))


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that nobody disturbed: what all others must come to."""
    run = tmp_path_factory.mktemp("sound") / "run"
    finish(arguments("run", run), run.with_name("run.log"))
    finish([REPORT, str(run)], run.with_name("run.log"))
    return run
