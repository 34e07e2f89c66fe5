"""A standalone Spark cluster of one master and two workers, each with a pool of Python workers."""

from tools.cluster.cluster import Cluster, answer
from tools.cluster.hosts import HOSTS, SOFTWARE, Host
from tools.cluster.software import job_server

_HOME = SOFTWARE / "spark"


class Spark(Cluster):
    name = "spark"
    worker_process = "org.apache.spark."  # the worker and its executors

    def start_head(self) -> None:
        words = ("--host", self.head.address, "--port", "7077", "--webui-port", "8080")
        self._start(self.head, "master.Master", *words)

    def start_worker(self, host: Host) -> None:
        own = ("--host", host.address, "--cores", "1", "--memory", "1g")
        there = ("--work-dir", str(HOSTS / "home" / "spark"))
        self._start(host, "worker.Worker", *own, *there, f"spark://{self.head.address}:7077")

    def num_workers(self) -> int:
        return int(answer(f"http://{self.head.address}:8080/json/")["aliveworkers"])

    def engine_options(self) -> list[str]:
        return [
            "--runner=SparkRunner",
            f"--spark_master_url=spark://{self.head.address}:7077",
            f"--spark_job_server_jar={job_server('spark')}",
            "--environment_cache_millis=300000",  # else a Python worker lives as long as a step
        ]

    def _start(self, host: Host, main: str, *words: str) -> None:
        classes = ("-cp", f"{_HOME}/jars/*", f"org.apache.spark.deploy.{main}")
        environment = {"SPARK_HOME": str(_HOME), "SPARK_SCALA_VERSION": "2.12"}  # its scripts' own
        host.start("spark", ("java", "-Xmx512m", *classes, *words), environment)
