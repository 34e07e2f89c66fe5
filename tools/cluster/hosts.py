"""Hosts of a cluster on one machine: network namespaces on a bridge, with files of their own.

A host has an address, a name, a /tmp and a home folder. It sees the software that is installed for
the cluster, but neither the checkout (unless it is to start runs) nor the files of other hosts.
"""

import fcntl
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
ROOT = Path(os.environ.get("ELECTRIFY_CLUSTER", "/var/tmp/electrify-cluster"))
SOFTWARE, HOSTS, LOGS = ROOT / "software", ROOT / "hosts", ROOT / "logs"
_NAMES = ROOT / "hosts.txt"  # their /etc/hosts
BRIDGE, NETWORK = "electrify0", "10.77.0"


def command(*words: str | Path, check: bool = True) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"{shlex.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


class Host:
    """A host by its name and number; processes are started in sessions of their own."""

    def __init__(self, name: str, number: int, has_checkout: bool = False) -> None:
        self.name, self.address = name, f"{NETWORK}.{number}"
        self.namespace, self._has_checkout = f"electrify-{name}", has_checkout
        self.link = f"el-{number}"  # its end on the bridge
        self.folder = HOSTS / name
        self.home = HOSTS / "home"  # as the host itself sees it
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def open(self) -> None:
        """Make the namespace, its link to the bridge, and its folders."""
        for part in ("home", "tmp"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        command("ip", "netns", "add", self.namespace)
        veth = ("type", "veth", "peer", "eth0", "netns", self.namespace)
        command("ip", "link", "add", self.link, *veth)
        command("ip", "link", "set", self.link, "master", BRIDGE, "up")
        for words in ("link set lo up", "link set eth0 up", f"addr add {self.address}/24 dev eth0"):
            command("ip", "-n", self.namespace, *words.split())

    def start(
        self, name: str, words: Sequence[str | Path], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a program on the host; what it prints goes to a log of its own."""
        mounts = [f"--bind {self.folder}/tmp /tmp", f"--bind {_NAMES} /etc/hosts"]
        if not self._has_checkout:
            mounts.append(f"-t tmpfs none {CHECKOUT}")
        mounts.append(f"--bind {self.folder} {HOSTS}")  # last: it hides the other hosts' folders
        mount = "".join(f"mount {each}; " for each in mounts)
        program = f"cd {self.home}; exec {shlex.join(map(str, words))}"
        inner = f"set -e; {mount}hostname {self.name}; {program}"
        outer = ("ip", "netns", "exec", self.namespace, "unshare", "--uts", "sh", "-c", inner)
        plain = {key: os.environ[key] for key in ("LANG", "JAVA_HOME") if key in os.environ}
        path = f"{SOFTWARE}/venv/bin:{os.environ['PATH']}"
        variables = {**plain, "PATH": path, "HOME": str(self.home), **environment}
        LOGS.mkdir(parents=True, exist_ok=True)
        with (LOGS / f"{self.name}-{name}.log").open("wb") as log:
            process = subprocess.Popen(
                outer, env=variables, stdout=log, stderr=log, start_new_session=True
            )
        self.processes[name] = process
        return process

    def pids(self) -> list[int]:
        return [int(word) for word in command("ip", "netns", "pids", self.namespace).split()]

    def kill(self, pattern: str) -> int:
        """Kill the host's processes whose command has the pattern; how many there were."""
        killed = 0
        for pid in self.pids():
            with suppress(OSError):
                if pattern in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        return killed

    def stop(self) -> None:
        """Kill all that runs on the host."""
        self.kill("")
        for process in self.processes.values():
            process.wait()
        self.processes.clear()

    def close(self) -> None:
        with suppress(RuntimeError):  # it was never opened
            self.stop()
        command("ip", "link", "del", self.link, check=False)  # at once, unlike its namespace
        command("ip", "netns", "del", self.namespace, check=False)


@contextmanager
def network(hosts: Sequence[Host]) -> Iterator[None]:
    """Hosts on a bridge; at the end none of their processes is left, nor of an earlier attempt.

    `BlockingIOError` while another process has them.
    """
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield from _network(hosts)


def _network(hosts: Sequence[Host]) -> Iterator[None]:
    _remove(hosts)
    command("rm", "-rf", HOSTS)
    try:
        lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in hosts)]
        _NAMES.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        command("ip", "link", "add", BRIDGE, "type", "bridge")
        command("ip", "addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)  # for this process
        command("ip", "link", "set", BRIDGE, "up")
        for host in hosts:
            host.open()
        yield
    finally:
        _remove(hosts)


def _remove(hosts: Sequence[Host]) -> None:
    for host in hosts:
        host.close()
    command("ip", "link", "del", BRIDGE, check=False)


def wait_until(what: str, seconds: float, is_so: Callable[[], object]) -> None:
    """Ask twice a second, also one that does not answer yet; `RuntimeError` if it is never so."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            if is_so():
                return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {seconds:.0f} s; see {LOGS}")
        time.sleep(0.5)
