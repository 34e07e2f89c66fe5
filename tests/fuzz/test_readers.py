"""Hostile input: every reader takes mutated files, and gives a result or an error that names them.

For a longer series: `pytest tests/fuzz --rounds 20000 --seed 7`.
"""

import logging
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

import pytest

from tests.fuzz import artifacts, corpus
from tests.fuzz.mutate import MAX_BYTES, mutated, mutated_json, mutated_line
from tests.fuzz.reader import Reader

ROUNDS = 100  # inputs of a reader beside the sound ones
MAX_SECONDS = 30.0  # of one input; nearly all take under a millisecond
MAX_POOL = 400
READERS = corpus.READERS | artifacts.READERS


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
    sound = [_read(reader, seed) for seed in reader.seeds]
    assert any(was_read for was_read, _ in sound)  # else only the first check would be tried
    rng = random.Random(f"{request.config.getoption('seed')} {name}")
    pool, ways = list(reader.seeds), set(sound)
    for _ in range(request.config.getoption("rounds") or ROUNDS):
        data = _input(reader, pool, rng)
        way = _read(reader, data)
        if way not in ways and len(data) <= MAX_BYTES:  # a new way is followed
            ways.add(way)
            pool.append(data)
            if len(pool) > MAX_POOL:
                del pool[rng.randrange(len(reader.seeds), len(pool))]


def _input(reader: Reader, pool: list[bytes], rng: random.Random) -> bytes:
    # inputs of the pool go ever further astray: half of the time from a sound one
    data = rng.choice(reader.seeds if rng.random() < 0.5 else pool)
    if reader.form != "bytes" and rng.random() < 0.5:
        change = mutated_json if reader.form == "json" else mutated_line
        try:
            return change(data, rng)
        except (ValueError, RecursionError):  # it is no JSON any more
            pass
    return mutated(data, rng.choice(pool), rng, reader.words)


def _read(reader: Reader, data: bytes) -> tuple[bool, object]:
    """Whether it was read, and the way: the outcome, or the lines of the error."""
    signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
    try:
        return True, reader.read(data)
    except reader.errors as error:
        if isinstance(error, UnicodeError) or reader.named not in str(error):
            pytest.fail(f"{reader.named!r} is not named: {error!r}: {data[:400]!r}")
        return False, _place(error.__traceback__)
    except BaseException as error:  # pyo3's panics are no Exception
        error.add_note(f"input: {data[:400]!r}, {len(data)} bytes")
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _place(trace: TracebackType | None) -> tuple[str, ...]:
    """The innermost two lines of ours: file:line."""
    lines = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "site-packages" not in name and "/fuzz/" not in name:
            lines.append(f"{name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return tuple(lines[-2:])
