"""Runs that are killed, damaged, starved of memory and disk: `make test-slow`, in minutes.

For longer series give options, and `-s` to see the figures:
`pytest -s tests/slow/test_kill.py --rounds 50 --seed 9`.
"""

import random

import pytest


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """`--rounds`, else the test file's own modest number."""
    number: int = request.config.getoption("rounds") or request.module.ROUNDS
    return number


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.config.getoption("seed"))
