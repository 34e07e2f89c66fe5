"""The fuzzer finds what is planted, and every reader stands a few hundred of its inputs."""

import copy
import json
import logging
import mmap
import random
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.torture import fuzz, fuzz_loop
from benchmarks.torture.fuzz_loop import Found, Work
from benchmarks.torture.fuzz_target import Reader
from benchmarks.torture.fuzz_targets import TARGETS
from benchmarks.torture.mutate import MAX_BYTES, mutated, mutated_json, mutated_line

EXECUTIONS = 40


@pytest.fixture(autouse=True)
def _alarm():
    before = signal.signal(signal.SIGALRM, fuzz_loop._stop)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def run(reader, executions, seed=0):
    shared = mmap.mmap(-1, fuzz_loop.CURRENT_BYTES)
    return fuzz_loop._loop(reader, 0, range(executions), random.Random(seed), shared)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.filterwarnings("ignore")
def test_a_reader_gives_a_result_or_a_named_error(tmp_path, name):
    reader = TARGETS[name].make(tmp_path)
    found = run(reader, EXECUTIONS + len(reader.seeds))
    assert found.faults == {}
    assert sum(found.outcomes.values()) == EXECUTIONS + len(reader.seeds)


@pytest.mark.parametrize("name", sorted(TARGETS.keys() - {"lock"}))  # that is always refused
@pytest.mark.filterwarnings("ignore")
def test_a_sound_input_is_read(tmp_path, name):
    """Else the fuzzer would see nothing but the first check."""
    reader = TARGETS[name].make(tmp_path)
    found = Found()
    for seed in reader.seeds:
        fuzz_loop._execute(reader, seed, 0, found)
    assert found.outcomes["read"] > 0


def _raises(error):
    def read(data):
        if b"\xff" in data:
            raise copy.copy(error)  # a trace of its own
        return len(data)

    return read


class Panic(BaseException):
    pass


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (KeyError("a"), "KeyError"),
        (MemoryError(), "MemoryError"),
        (Panic("p"), "Panic"),
        (AssertionError(), "AssertionError"),
        (RecursionError(), "RecursionError"),
        (ValueError("something else"), "not named"),
        (UnicodeDecodeError("utf-8", b"a.txt", 0, 1, "a.txt"), "UnicodeDecodeError"),
    ],
)
def test_what_is_no_named_error_is_found(error, shown):
    found = run(Reader((b"abc",), _raises(error), named="a.txt"), 2000)
    (fault,) = found.faults.values()
    assert shown in fault["what"]
    assert "\\xff" in fault["input"]


def test_a_named_error_is_no_fault():
    found = run(Reader((b"abc",), _raises(ValueError("a.txt row 1")), named="a.txt"), 2000)
    assert found.faults == {}
    assert found.outcomes["refused"] > 0


def test_a_hang_is_found(monkeypatch):
    monkeypatch.setattr(fuzz_loop, "SECONDS", 0.1)

    def read(data):
        while b"\xff" in data:
            pass

    found = Found()
    fuzz_loop._execute(Reader((), read), b"\xff", 7, found)
    (fault,) = found.faults.values()
    assert fault["what"] == "more than 0.1 s"
    assert fault["execution"] == 7


def test_a_new_way_is_followed():
    """A chain of conditions that blind changes of the seed would hardly meet."""
    deepest = []

    def read(data):
        depth = next(
            (n for n, byte in enumerate(b"\x00\x09\x0a") if byte not in data[n : n + 3]), 3
        )
        deepest.append(depth)
        return depth

    run(Reader((b"abcdef",), read), 3000)
    assert max(deepest) == 3


def test_a_death_is_a_fault_with_its_input_and_the_target_goes_on_behind_it():
    figures = fuzz.FuzzFigures()
    works = [Work("jsonl", 0, 10), Work("wet", 0, 5)]
    left = fuzz._after_death(figures, works, 4, b"bad", fuzz._death(-6, hung=False))
    assert left == [Work("jsonl", 5, 10), Work("wet", 0, 5)]
    assert figures.faults == ["jsonl: execution 4: killed by SIGABRT: b'bad'"]
    assert figures.targets["jsonl"]["executions"] == 5
    assert fuzz._after_death(figures, [Work("jsonl", 5, 10)], 9, b"", "exit status 1") == []


def test_a_process_that_dies_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "run_targets", _die)
    figures = fuzz.FuzzFigures()
    progress = fuzz.Progress("fuzz", 10, "executions")
    left = fuzz._run([Work("jsonl", 0, 10)], 0, tmp_path, figures, progress)
    assert left == [Work("jsonl", 4, 10)]
    assert figures.faults == ["jsonl: execution 3: killed by SIGKILL: b'abc'"]


def _die(works, seed, folder):
    import os

    with (folder / fuzz_loop.CURRENT).open("r+b") as file:
        file.write(fuzz_loop.HEAD.pack(0, 3, 3) + b"abc")
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_unknown_target_is_refused():
    with pytest.raises(ValueError, match="no target 'x'"):
        fuzz.torture_by_fuzz(10, 0, ["x"])


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 999))
def test_the_same_draws_change_the_same_way_and_inputs_stay_short(data, other, seed):
    changed = [mutated(data, other, random.Random(seed), (b"word",)) for _ in range(2)]
    assert changed[0] == changed[1]
    assert len(changed[0]) < 30 * MAX_BYTES


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(JSON, st.integers(0, 999))
def test_changed_json_is_json_whole_or_in_lines(value, seed):
    text = json.dumps(value).encode()
    json.loads(mutated_json(text, random.Random(seed)).decode("utf-8", "surrogatepass"))
    lines = mutated_line(b"\n".join([text] * 3), random.Random(seed)).split(b"\n")
    assert len(lines) == 3
    assert sum(line == text for line in lines) >= 2
