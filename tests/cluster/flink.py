"""A Flink cluster of one JobManager and two TaskManagers, each with a pool of Python workers."""

from tests.cluster.cluster import Cluster, answer
from tests.cluster.hosts import HOSTS, SOFTWARE, Host
from tests.cluster.software import FLINK_MINOR, job_server

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


class Flink(Cluster):
    name = "flink"
    worker_process = "TaskManagerRunner"

    def start_head(self) -> None:
        self._start(self.head, "entrypoint.StandaloneSessionClusterEntrypoint", "600m")

    def start_worker(self, host: Host) -> None:
        self._start(host, "taskexecutor.TaskManagerRunner", "768m")

    def num_workers(self) -> int:
        return int(answer(f"http://{self.head.address}:8081/overview")["taskmanagers"])

    def engine_options(self) -> list[str]:
        return [
            "--runner=FlinkRunner",
            f"--flink_master={self.head.address}:8081",
            f"--flink_version={FLINK_MINOR}",
            f"--flink_job_server_jar={job_server('flink')}",
            "--parallelism=2",
        ]

    def _start(self, host: Host, main: str, heap: str) -> None:
        folder = host.folder / "home" / "conf"
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(_settings(self.head, host), encoding="utf-8")
        (folder / "log4j.properties").write_text(_LOG4J, encoding="utf-8")
        there = HOSTS / "home" / "conf"
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
        exported = [f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTED]
        log = f"-Dlog4j.configurationFile=file:{there}/log4j.properties"
        classes = ("-cp", f"{SOFTWARE}/flink/lib/*", f"org.apache.flink.runtime.{main}")
        words = ("java", *opened, *exported, log, f"-Xmx{heap}", *classes, "--configDir", there)
        host.start("flink", words, {})
