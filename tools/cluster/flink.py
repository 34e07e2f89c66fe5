"""A Flink cluster of one JobManager and two TaskManagers, each with a pool of Python workers."""

import re

from tools.cluster.cluster import Cluster, answer
from tools.cluster.hosts import CHECKOUT, HOSTS, SOFTWARE, Host
from tools.cluster.software import FLINK_MINOR, job_server

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
    """The file that the documentation shows, of these hosts."""
    page = (CHECKOUT / "docs" / "cluster.md").read_text(encoding="utf-8")
    shown: str
    (shown,) = re.findall(r"^```yaml\n(.+?)^```$", page, re.MULTILINE | re.DOTALL)
    addresses = {"10.77.0.12": job_manager.address, "10.77.0.13": host.address}
    for here, there in addresses.items():
        shown = shown.replace(here, there)
    return shown


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
        words = [
            "java",
            *opened,
            *exported,
            log,
            f"-Xmx{heap}",
            *classes,
            "--configDir",
            str(there),
        ]
        host.start("flink", words, {})
