"""A Flink cluster of one JobManager and two TaskManagers, each with a pool of Python workers."""

import json
import urllib.request
from collections.abc import Mapping, Sequence

from tests.cluster.hosts import HOSTS, SOFTWARE, Host, wait_until
from tests.cluster.software import FLINK_MINOR, JOB_SERVER, OTHER_CODE

POOL = "apache_beam.runners.worker.worker_pool_main"
POOL_PORT = 50000
_START_SECONDS = 240.0
# what Flink's own scripts give to Java 17
_OPENED = (
    *("java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect"),
    *("java.text", "java.time", "java.util", "java.util.concurrent"),
    *("java.util.concurrent.atomic", "java.util.concurrent.locks"),
)
_EXPORTED = (
    *("java.base/sun.net.util", "java.rmi/sun.rmi.registry"),
    "java.security.jgss/sun.security.krb5",
)
_LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = Console
appender.console.name = Console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss,SSS} %-5p %c{1} - %m%n
"""


def _settings(job_manager: Host, host: Host) -> str:
    return f"""\
jobmanager.rpc.address: {job_manager.address}
jobmanager.bind-host: 0.0.0.0
jobmanager.memory.process.size: 1g
rest.address: {job_manager.address}
rest.bind-address: 0.0.0.0
taskmanager.bind-host: 0.0.0.0
taskmanager.host: {host.address}
taskmanager.numberOfTaskSlots: 2
cluster.evenly-spread-out-slots: true
taskmanager.cpu.cores: 2
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.task.heap.size: 640m
taskmanager.memory.task.off-heap.size: 64m
taskmanager.memory.network.min: 160m
taskmanager.memory.network.max: 160m
taskmanager.memory.managed.size: 256m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 128m
taskmanager.memory.jvm-overhead.max: 128m
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 2
restart-strategy.fixed-delay.delay: 5 s
heartbeat.interval: 5000
heartbeat.timeout: 60000
io.tmp.dirs: /tmp
"""


class Flink:
    """The cluster; `task_hosts` work, each with its own pool."""

    name = "Flink"

    def __init__(self, job_manager: Host, task_hosts: Sequence[Host], storage: str) -> None:
        self.job_manager, self.task_hosts = job_manager, task_hosts
        self.hosts = (job_manager, *task_hosts)
        self.storage = storage

    def start(self) -> None:
        self._java(self.job_manager, "entrypoint.StandaloneSessionClusterEntrypoint", "600m")
        for host in self.task_hosts:
            self.start_task_manager(host)
            self.start_pool(host)
        wait_until("two TaskManagers", _START_SECONDS, lambda: self.num_task_managers() == 2)

    def start_task_manager(self, host: Host) -> None:
        self._java(host, "taskexecutor.TaskManagerRunner", "768m")

    def start_pool(self, host: Host, storage: str | None = None, other_code: bool = False) -> None:
        """Python workers, of the wheel alone; with other code than the wheel's if asked for."""
        if pool := host.processes.pop("pool", None):
            host.kill(POOL)
            host.kill("sdk_worker")
            pool.wait()
        environment = storage_environment(storage or self.storage)
        if other_code:
            environment["PYTHONPATH"] = str(OTHER_CODE)
        words = (SOFTWARE / "venv" / "bin" / "python", "-m", POOL, f"--service_port={POOL_PORT}")
        host.start("pool", words, environment)

    def options(self) -> list[str]:
        """Beam's, for a driver on any host."""
        return [
            "--runner=FlinkRunner",
            f"--flink_master={self.job_manager.address}:8081",
            f"--flink_version={FLINK_MINOR}",
            f"--flink_job_server_jar={JOB_SERVER}",
            "--parallelism=2",
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{POOL_PORT}",
        ]

    def num_task_managers(self) -> int:
        try:
            answer = self.job_manager_says("overview")
        except OSError:
            return 0
        return int(answer["taskmanagers"])

    def job_manager_says(self, what: str) -> Mapping[str, int]:
        url = f"http://{self.job_manager.address}:8081/{what}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return dict(json.load(answer))

    def _java(self, host: Host, main: str, heap: str) -> None:
        folder = host.folder / "home" / "conf"
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(_settings(self.job_manager, host), encoding="utf-8")
        (folder / "log4j.properties").write_text(_LOG4J, encoding="utf-8")
        there = HOSTS / "home" / "conf"
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
        exported = [f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTED]
        log = f"-Dlog4j.configurationFile=file:{there}/log4j.properties"
        classes = ("-cp", f"{SOFTWARE}/flink/lib/*", f"org.apache.flink.runtime.{main}")
        words = ("java", *opened, *exported, log, f"-Xmx{heap}", *classes, "--configDir", there)
        host.start("flink", words, {})


def storage_environment(storage: str) -> dict[str, str]:
    """Variables by which gcsfs finds the emulator."""
    return {
        "STORAGE_EMULATOR_HOST": storage,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "FSSPEC_GS": '{"token": "anon"}',
        "OMP_NUM_THREADS": "1",
    }
