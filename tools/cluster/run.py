"""Every Beam stage on clusters whose hosts share nothing but a bucket: `make cluster-test`.

The documents, the vocabulary and the shards must be, byte for byte, those of the local
runner; also where a host that works or a Python worker is killed. Workers that cannot take part,
and sources that only the starting host sees, must be refused by name. Root is needed, for the hosts
are network namespaces.
"""

import argparse
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tools.cluster.cluster import Cluster, answer, storage_environment
from tools.cluster.flink import Flink
from tools.cluster.hosts import CHECKOUT, HOSTS, LOGS, Host, network, wait_until
from tools.cluster.software import PRISM, dataflow_python, install
from tools.cluster.spark import Spark
from tools.throughput.cost import children_seconds, waiting_for_orphans
from tools.throughput.report import Report, Row

STAGES = {"clean": "clean", "train-vocab": "vocab", "encode": "shards"}
MAX_SECONDS = 1500.0  # of one stage
_PACKAGES = ("apache-beam", "pyarrow", "gcsfs")
_STAGES_MEANING = """
Seconds and CPU seconds of all hosts, workers and engine alike, and how many times those of the
local runner they are. Equal: every file is, byte for byte, that of the local runner.
"""
_CHECKS_MEANING = """
A worker or all of the engine killed on one host in the middle of `clean`; what cannot take part.
"""
_SAMPLE = CHECKOUT / "pipeline" / "sample"
_FORBID = """\
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def refuse(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b'{"error": {"code": 403, "message": "the account may not do this"}}'
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = do_PUT = do_DELETE = refuse
    log_message = lambda *_: None
http.server.ThreadingHTTPServer(("0.0.0.0", 9024), Handler).serve_forever()
"""


class Run:
    """The starting host, with a config and what the stages have made."""

    def __init__(self, driver: Host, storage: Host) -> None:
        self.driver = driver
        self.bucket = f"http://{storage.address}:9023"
        self.forbidden = f"http://{storage.address}:9024"
        self.home = driver.folder / "home"
        self.stages: list[dict[str, Any]] = []
        self.checks: list[Row] = []
        self.num_bytes = self.num_languages = 0
        self.faults: list[str] = []

    def write_config(self, corpora: Path | None, megabytes: float) -> None:
        """Send the corpus to the bucket; the config names it there."""
        sources, raw = [], self.home / "raw"
        raw.mkdir()
        if corpora is None:
            for path in sorted(_SAMPLE.glob("ko_*.jsonl")):
                (raw / path.name).write_bytes(path.read_bytes())
            sources.append(("ko", "ko_*.jsonl"))
            rows = [{"text": text} for text in (_SAMPLE / "en.txt").read_text().split("\n\n")]
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (raw / "en.jsonl").write_text(lines, encoding="utf-8")
            sources.append(("en", "en.jsonl"))
        else:
            languages = sorted(path for path in corpora.iterdir() if path.is_dir())
            for folder in languages:
                _cut(folder, raw, megabytes / len(languages) * 1e6)
                sources.append((folder.name, f"{folder.name}-*.jsonl"))
        self.num_bytes = sum(path.stat().st_size for path in raw.iterdir())
        self.num_languages = len(sources)
        print(f"raw files of {self.num_bytes / 1e6:,.1f} MB", flush=True)
        listed = "".join(
            f'  {{ kind = "jsonl", language = "{language}", path = "gs://corpus/raw/{name}" }},\n'
            for language, name in sources
        )
        (self.home / "run.toml").write_text(
            f'name = "cluster"\noutput_dir = "out"\n[clean]\nsources = [\n{listed}]\n'
            "[vocab]\nsize = 6000\n[encode]\nvalid_fraction = 0.1\n"
            f'[evaluate]\nown_tasks = [{{ train = "{_SAMPLE}/made-up-headlines.json" }}]\n',
            encoding="utf-8",
        )
        code = (
            "import gcsfs; files = gcsfs.GCSFileSystem(token='anon'); "
            f"files.put('{HOSTS}/home/raw/', 'corpus/raw/', recursive=True)"
        )
        status = self._start("upload", [sys.executable, "-c", code]).wait(timeout=MAX_SECONDS)
        if status:
            raise RuntimeError(f"the corpus was not sent to the bucket; see {LOGS}")

    def start(
        self, output: str, verb: str, options: Sequence[str], *words: str
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "electrify", verb, "run.toml", *words]
        command += ["--set", f"output_dir={output}"]
        if options:
            command += ["--set", "beam.work_dir=gs://corpus/tmp", "--", *options]
        return self._start(f"{output}-{verb}", command)

    def said(self, output: str, verb: str) -> str:
        return (LOGS / f"driver-{output}-{verb}.log").read_text(encoding="utf-8", errors="replace")

    def finish(self, process: subprocess.Popen[bytes], output: str, verb: str) -> bool:
        """Wait for its end; False, and a fault, if it failed."""
        if status := wait_for_end(process):
            self.faults.append(
                f"{output} {verb}: status {status}: {self.said(output, verb)[-600:]}"
            )
        return status == 0

    def measure(
        self, output: str, verb: str, options: Sequence[str] = (), hosts: Sequence[Host] = ()
    ) -> bool:
        """Run a stage, and note its time and the CPU seconds of all hosts."""
        before = sum(host.cpu_seconds() for host in hosts) + children_seconds()
        # on this machine alone: the process that forks workers ends by itself, behind the command
        with nullcontext() if hosts else waiting_for_orphans():
            start = time.monotonic()
            is_done = self.finish(self.start(output, verb, options), output, verb)
            seconds = time.monotonic() - start
        cpu = sum(host.cpu_seconds() for host in hosts) + children_seconds() - before
        row = {"stage": verb, "runner": output, "seconds": seconds, "cpu_seconds": cpu}
        local = [of for of in self.stages if of["stage"] == verb and of["runner"] == "local"]
        for of in local:
            row["times_local"] = seconds / of["seconds"]
            row["times_local_cpu"] = cpu / of["cpu_seconds"]
        self.stages.append(row)
        print(f"{output:>12} {verb:<12} {seconds:7.1f} s {cpu:7.1f} CPU s", flush=True)
        return is_done

    def measure_stages(self, output: str, options: Sequence[str], hosts: Sequence[Host]) -> None:
        for verb in STAGES:
            if self.measure(output, verb, options, hosts):
                self.stages[-1]["equal"] = self.compare(output, verb)

    def compare(self, output: str, verb: str) -> str:
        """What is equal; a fault for each file that is not the local runner's."""
        local, other = (self.home / name / STAGES[verb] for name in ("local", output))
        names = {path.relative_to(local) for path in local.rglob("*") if path.is_file()}
        names |= {path.relative_to(other) for path in other.rglob("*") if path.is_file()}
        num_bytes, faults = 0, []
        for name in sorted(names - {Path("manifest.json")}):
            paths = [folder / name for folder in (local, other)]
            contents = [path.read_bytes() if path.exists() else b"-" for path in paths]
            num_bytes += len(contents[0])
            if contents[0] != contents[1]:
                faults.append(f"{output} {verb}: {name} is not that of the local runner")
        found = f"{'NOT ' * bool(faults)}{len(names) - 1} files, {num_bytes:,} bytes"
        print(f"{output} {verb}: equal: {found}", flush=True)
        self.faults += faults
        return found

    def workers_on(self, host: Host) -> set[str]:
        """Workers on the host that have opened a work folder."""
        url = f"{self.bucket}/storage/v1/b/corpus/o?prefix=tmp/"
        names = [item["name"] for item in answer(url).get("items", ())]
        return {name for name in names if f"/worker-{host.name}-" in name}

    def expect(self, output: str, verb: str, options: Sequence[str], said: str, *w: str) -> None:
        """A fault unless the command is refused with these words."""
        status = wait_for_end(self.start(output, verb, options, *w))
        text = self.said(output, verb)
        (*_, last) = [line for line in text.splitlines() if line.startswith("error:")] or ["-"]
        print(f"refused, {output}: {last}", flush=True)
        self.checks.append({"what": output, "status": status, "what_it_said": last})
        if status != 1 or not re.search(said, last):
            self.faults.append(f"{output} {verb}: status {status}, not refused with {said!r}")

    def _start(self, name: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
        environment = storage_environment(self.bucket) | {"PYTHONPATH": str(CHECKOUT)}
        return self.driver.start(name, words, environment)


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Its status; it is killed if there is no end."""
    try:
        return process.wait(timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def _cut(folder: Path, target: Path, num_bytes: float) -> None:
    """The first lines of each file of a language, of each as many bytes."""
    paths = sorted(folder.glob("*.jsonl.gz"))
    for path in paths:
        with (
            gzip.open(path, "rb") as lines,
            (target / f"{folder.name}-{path.name[:-3]}").open("wb") as file,
        ):
            for line in lines:
                if file.tell() > num_bytes / len(paths):
                    break
                file.write(line)


def check_stages(run: Run, cluster: Cluster) -> None:
    run.measure_stages(cluster.name, cluster.options(), cluster.hosts)


def check_kills(run: Run, cluster: Cluster) -> None:
    """Kill a Python worker, and then all of the engine, on a host in the middle of its work."""
    options = cluster.options()
    for what, process_name in {
        "worker": "sdk_worker import SdkHarness",
        "host": cluster.worker_process,
    }.items():
        output = f"{cluster.name}-killed-{what}"
        before = {host: run.workers_on(host) for host in cluster.task_hosts}
        process = run.start(output, "clean", options)
        # Flink waits without end for a worker that dies before it has connected
        at_work: list[Host] = []
        while not at_work and process.poll() is None:
            time.sleep(0.5)
            at_work = [host for host, of in before.items() if run.workers_on(host) - of]
        if process.poll() is not None or not at_work[0].kill(process_name):
            run.faults.append(f"{output}: there was nothing to kill")
        status = wait_for_end(process)
        said = run.said(output, "clean").splitlines() or [""]
        print(f"{output}: status {status}: {said[-1]}", flush=True)
        row = {"what": output, "status": status, "what_it_said": said[-1] if status else ""}
        run.checks.append(row)
        if what == "host" and at_work:
            cluster.start_worker(at_work[0])
            cluster.wait_for_workers()
        if status == 0 or run.measure(output, "clean", options, cluster.hosts):
            row["equal"] = run.compare(output, "clean")
        if status and not said[-1].startswith("error: "):
            run.faults.append(f"{output}: no line says how to go on")


def check_refusals(run: Run, cluster: Cluster) -> None:
    options = cluster.options()
    (run.home / "here.jsonl").write_text('{"text": "only here"}\n', encoding="utf-8")
    source = '[{kind="jsonl",language="en",path="here.jsonl"}]'
    words = ("--set", f"clean.sources={source}")
    here = r"here\.jsonl cannot be read"
    run.expect(f"{cluster.name}-driver-only", "clean", options, here, *words)
    cluster.start_pools(other_code=True)
    code = r"the worker on task\d .*code .*install the wheel"
    run.expect(f"{cluster.name}-other-code", "clean", options, code)
    cluster.start_pools(storage=run.forbidden)
    rights = r"the worker on task\d .* cannot read and write gs://corpus/tmp"
    run.expect(f"{cluster.name}-no-rights", "clean", options, rights)
    cluster.start_pools()
    cluster.start_pool(cluster.task_hosts[-1], other_code=True)  # the other one gets its work
    output = f"{cluster.name}-one-of-two"
    if run.measure(output, "clean", options, cluster.hosts):
        run.stages[-1]["equal"] = run.compare(output, "clean")


def check_prism(run: Run) -> None:
    """Beam's engine for one machine, here the starting host; it has no pool and no other hosts."""
    run.measure_stages("prism", ["--runner=PrismRunner", f"--prism_location={PRISM}"], ())


def check_dataflow(run: Run) -> None:
    """The job graphs alone, on this machine: the service is Google's."""
    words = (dataflow_python(), "-m", "pytest", "-q", "-rs", "tests/pipeline/test_dataflow.py")
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    if subprocess.run(words, cwd=CHECKOUT, env=environment).returncode:
        run.faults.append("dataflow: no job graph")


def report_of(run: Run, parsed: argparse.Namespace) -> str:
    """The report in Markdown; faults are notes of it."""
    conditions = {"raw_megabytes": run.num_bytes / 1e6, "languages": run.num_languages}
    report = Report("Stages on clusters", _PACKAGES, conditions)
    report.notes += [f"FAULT {fault}" for fault in run.faults]
    report.add("stages", "Stages", _STAGES_MEANING, run.stages)
    report.add("checks", "Kills and refusals", _CHECKS_MEANING, run.checks)
    command = ["python -m tools.cluster.run --engines", *parsed.engines, "--only", *parsed.only]
    if parsed.corpora:
        command.append(f"--corpora {parsed.corpora} --megabytes {parsed.megabytes:g}")
    return f"{report.markdown()}\n## Command\n\n```\n{' '.join(command)}\n```\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpora", type=Path, help="folders of *.jsonl.gz, one a language")
    parser.add_argument(
        "--megabytes", type=float, default=4.0, help="the same of each language that has it"
    )
    clusters = {"spark": Spark, "flink": Flink}
    alone = {"prism": check_prism, "dataflow": check_dataflow}
    engines = (*clusters, *alone)
    parser.add_argument("--engines", choices=engines, nargs="+", default=engines)
    checks = {"stages": check_stages, "kills": check_kills, "refusals": check_refusals}
    parser.add_argument("--only", choices=checks, nargs="+", default=list(checks))
    parser.add_argument("--report", type=Path, help="Markdown file for the figures")
    parsed = parser.parse_args()
    if os.geteuid():
        parser.error("root is needed: the hosts are network namespaces")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing stays behind
    install()
    driver, storage = Host("driver", 10, has_checkout=True), Host("storage", 11, has_checkout=True)
    head, tasks = Host("head", 12), (Host("task1", 13), Host("task2", 14))
    with network((driver, storage, head, *tasks)):
        storage.start("forbidden", (sys.executable, "-c", _FORBID), {})
        emulator = ("-m", "gcp_storage_emulator", "start", "--host=0.0.0.0", "--port=9023")
        words = (sys.executable, *emulator, "--in-memory", "--default-bucket=corpus")
        storage.start("emulator", words, {"PYTHONPATH": str(CHECKOUT)})
        run = Run(driver, storage)
        wait_until("the bucket", 60, lambda: answer(f"{run.bucket}/storage/v1/b/corpus"))
        run.write_config(parsed.corpora, parsed.megabytes)
        for verb in STAGES if "stages" in parsed.only else ("clean",):
            run.measure("local", verb)
        for name in parsed.engines:
            if name in alone:
                alone[name](run)
                continue
            cluster = clusters[name](head, tasks, run.bucket)
            with cluster.running():
                for check in parsed.only:
                    checks[check](run, cluster)
    report = report_of(run, parsed)
    print(report)
    if parsed.report:
        parsed.report.write_text(report, encoding="utf-8")
    for fault in run.faults:
        print(f"FAULT {fault}")
    print(f"{len(run.faults)} faults")
    return 1 if run.faults else 0


if __name__ == "__main__":
    sys.exit(main())
