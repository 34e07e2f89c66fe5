"""Each test starts with the `electrify` log as a library user has it, whatever a command set, and
on a CPU without units for bf16, whatever this one has: references are in fp32."""

import itertools
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from electrify.system import machine as cpu

with suppress(ModuleNotFoundError):  # the environment for TPUs has it not, nor tests that need it
    from hypothesis import HealthCheck, settings

    # busy cores are no fault of what is tested
    slow = [HealthCheck.too_slow]
    settings.register_profile("patient", deadline=None, suppress_health_check=slow)
    settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, help="length of a series in tests/slow and tests/fuzz")
    parser.addoption("--seed", type=int, default=0, help="of these series (0)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """tests/slow is collected only where it is named: `make test-slow`."""
    is_named = any("slow" in argument for argument in config.args)
    return True if collection_path == Path(__file__).parent / "slow" and not is_named else None


@pytest.fixture(scope="session", autouse=True)
def no_bf16_units() -> Iterator[None]:
    """Before fixtures of modules: what bf16 is worth is asked once a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "_CPUINFO", Path(os.devnull))
        yield


@pytest.fixture(autouse=True)
def plain_logging() -> None:
    logger = logging.getLogger("electrify")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


@pytest.fixture
def kills() -> Callable[[Callable[[], object], Callable[[], object]], Iterator[int]]:
    """`kills(begin, work)`: for each rename and removal of `work` once, after `begin`, a process
    that does `work` and dies there without cleaning up; the number of that step."""

    def each(begin: Callable[[], object], work: Callable[[], object]) -> Iterator[int]:
        for step in itertools.count():
            begin()
            if not _dies_at(step, work):
                assert step, "no step to die at"
                return
            yield step

    return each


def _dies_at(step: int, work: Callable[[], object]) -> bool:
    child = os.fork()
    if child == 0:
        steps = itertools.count()

        def die(event: str, _: object) -> None:
            if event in ("os.rename", "os.rmdir", "os.remove") and next(steps) == step:
                os._exit(9)

        sys.addaudithook(die)
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9
