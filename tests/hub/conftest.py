"""A hub on the loopback, and an `electrify` that asks it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.hub.rows import add_tasks
from tests.hub.server import Hub

_END = "the command has ended: "
# a process that runs the commands it is given, one a line: imports take seconds; waits are short
_COMMANDS = f"""
import json, sys, time
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.01))
from electrify.cli import main
for line in sys.stdin:
    status = main(json.loads(line))
    if hub := sys.modules.get("huggingface_hub.constants"):
        hub.HF_HUB_OFFLINE = False  # what a command has found out of the network
    sys.stderr.flush()
    print("", {_END!r} + str(status), sep="\\n", flush=True)
"""


class Ended(NamedTuple):
    """The exit status of a command, and what it printed."""

    status: int
    text: str

    @property
    def error(self) -> str:
        """The one line that says what is wrong."""
        (line,) = (line for line in self.text.splitlines() if line.startswith("error: "))
        assert "fault of electrify" not in self.text
        assert "Traceback" not in self.text
        assert self.status == 1
        return line


class Electrify:
    """The commands of one user, who has what they have read in a cache."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        (folder / "work").mkdir()
        self.cache = folder / "cache"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMANDS],
            env=hub.environ(self.cache),
            cwd=folder / "work",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.folder = folder / "work"

    def __call__(self, *words: str) -> Ended:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(words), file=self._process.stdin, flush=True)
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith(_END):
                return Ended(int(line.removeprefix(_END)), "".join(lines))
            lines.append(line)
        raise AssertionError("".join(lines))

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def hub() -> Iterator[Hub]:
    hub = Hub()
    add_tasks(hub)
    yield hub
    hub.stop()


@pytest.fixture(autouse=True)
def without_faults(hub: Hub) -> Iterator[None]:
    yield
    hub.faults.clear()


@pytest.fixture(scope="session")
def electrify(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Electrify]:
    electrify = Electrify(hub, tmp_path_factory.mktemp("user"))
    yield electrify
    electrify.close()
