"""Hostile input: every reader takes mutated files, and gives a result or an error that names them.

For a longer series: `pytest tests/fuzz --rounds 20000 --seed 7`.
"""

import logging
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.fuzz.corpus import READERS
from tests.fuzz.mutate import Reader, mutated

ROUNDS = 60  # inputs of a reader beside the sound ones
MAX_SECONDS = 30.0  # of one input; nearly all take under a millisecond


class _TooSlow(BaseException):
    """No `except Exception` of a reader swallows it."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooSlow(f"no end after {MAX_SECONDS} s")


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _stop)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.filterwarnings("ignore")
def test_a_reader_gives_a_result_or_a_named_error(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    reader = READERS[name](tmp_path)
    # else only the first check would be tried
    assert any(_is_read(reader, seed) for seed in reader.seeds)
    rng = random.Random(f"{request.config.getoption('seed')} {name}")
    for _ in range(request.config.getoption("rounds") or ROUNDS):
        _is_read(reader, mutated(reader, rng))


def _is_read(reader: Reader, data: bytes) -> bool:
    signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
    try:
        reader.read(data)
    except reader.errors as error:
        if isinstance(error, UnicodeError) or reader.named not in str(error):
            pytest.fail(f"{reader.named!r} is not named: {error!r}: {data[:400]!r}")
        return False
    except BaseException as error:  # pyo3's panics are no Exception
        error.add_note(f"input: {data[:400]!r}, {len(data)} bytes")
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return True
