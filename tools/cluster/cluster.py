"""A cluster of an engine: a head and hosts that work, each with a pool of Python workers."""

import json
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tools.cluster.hosts import SOFTWARE, Host, wait_until
from tools.cluster.software import OTHER_CODE

POOL_PORT = 50000
_POOL = "apache_beam.runners.worker.worker_pool_main"
_START_SECONDS = 240.0


class Cluster(ABC):
    """What engines have in common."""

    name: str
    worker_process: str  # in the command of the engine's own processes on a host that works

    def __init__(self, head: Host, task_hosts: Sequence[Host], storage: str) -> None:
        self.head, self.task_hosts, self.storage = head, task_hosts, storage
        self.hosts = (head, *task_hosts)

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            self.start_head()
            for host in self.task_hosts:
                self.start_worker(host)
            self.start_pools()
            self.wait_for_workers()
            yield
        finally:
            for host in self.hosts:
                host.stop()

    def wait_for_workers(self) -> None:
        num, what = len(self.task_hosts), f"workers of {self.name}"
        wait_until(what, _START_SECONDS, lambda: self.num_workers() == num)

    def start_pools(self, storage: str | None = None, other_code: bool = False) -> None:
        for host in self.task_hosts:
            self.start_pool(host, storage, other_code)

    def start_pool(self, host: Host, storage: str | None = None, other_code: bool = False) -> None:
        """Python workers, of the wheel alone; with other code than the wheel's if asked for."""
        if pool := host.processes.pop("pool", None):
            while pool.poll() is None:  # one that has just begun has no name yet
                host.kill(_POOL)
                host.kill("sdk_worker")
                time.sleep(0.2)
        environment = storage_environment(storage or self.storage)
        if other_code:
            environment["PYTHONPATH"] = str(OTHER_CODE)
        words = (SOFTWARE / "venv" / "bin" / "python", "-m", _POOL, f"--service_port={POOL_PORT}")
        host.start("pool", words, environment)

    def options(self) -> list[str]:
        """Beam's, for a driver on any host."""
        return [
            *self.engine_options(),
            "--job_server_jvm_properties=-Xmx1g",
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{POOL_PORT}",
        ]

    @abstractmethod
    def start_head(self) -> None: ...

    @abstractmethod
    def start_worker(self, host: Host) -> None: ...

    @abstractmethod
    def num_workers(self) -> int:
        """As the head counts them; `OSError` if it does not answer."""

    @abstractmethod
    def engine_options(self) -> list[str]: ...


def answer(url: str) -> Mapping[str, Any]:
    with urllib.request.urlopen(url, timeout=60) as said:
        return dict(json.load(said))


def storage_environment(storage: str) -> dict[str, str]:
    """Variables by which gcsfs finds the emulator."""
    return {
        "STORAGE_EMULATOR_HOST": storage,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "FSSPEC_GS": '{"token": "anon"}',
        "OMP_NUM_THREADS": "1",
    }
