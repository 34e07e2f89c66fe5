"""Every Beam stage on clusters whose hosts share nothing but a bucket: `make cluster-test`.

Documents, removed documents, pieces and token ids must be those of the local runner, whatever
their order; also where a host that works or a Python worker is killed. Workers that cannot take
part, and sources that only the starting host sees, must be refused by name. Root is needed, for the
hosts are network namespaces.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tools.cluster.cluster import Cluster, answer, storage_environment
from tools.cluster.flink import Flink
from tools.cluster.hosts import CHECKOUT, HOSTS, LOGS, Host, network, wait_until
from tools.cluster.software import PRISM, install
from tools.cluster.spark import Spark
from tools.throughput.texts import prepare
from vocab.shards.files import TokenShards

STAGES = {"clean": "clean", "train-vocab": "vocab", "encode": "shards"}
MAX_SECONDS = 1500.0  # of one stage
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


def sorted_rows(folder: Path) -> list[str]:
    """The rows of a stage, in an order that does not depend on the runner."""
    if folder.name == "vocab":
        return (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    if folder.name == "clean":
        files = [*folder.glob("documents-*.parquet"), *folder.glob("removed-*.parquet")]
        return sorted(repr(row) for path in files for row in pq.read_table(path).to_pylist())
    shards, rows = TokenShards(folder), list[str]()
    for split in ("train", "valid"):
        for language in shards.languages(split):
            for shard in shards.stream(split, language).shards:
                tokens, starts = np.asarray(shard.tokens), shard.documents.tolist()
                texts = (tokens[start:stop].tolist() for start, stop in pairwise(starts))
                rows += [f"{split} {language} {text}" for text in texts]
    return sorted(rows)


class Run:
    """The starting host, with a config and what the stages have made."""

    def __init__(self, driver: Host, storage: Host) -> None:
        self.driver = driver
        self.bucket = f"http://{storage.address}:9023"
        self.forbidden = f"http://{storage.address}:9024"
        self.home = driver.folder / "home"
        self.faults: list[str] = []

    def write_config(self, data_dir: Path | None, megabytes: float) -> None:
        """Send the sample, or texts of all languages of a folder, to the bucket; the config names
        them there."""
        raw = self.home / "raw"
        if data_dir is None:
            (raw / "00").mkdir(parents=True)
            for path in _SAMPLE.glob("ko_*.jsonl"):
                shutil.copy(path, raw / "00")
            languages: Sequence[str] = ["ko"]
        else:
            languages = prepare(raw, data_dir, ["all"], megabytes).languages
        listed = "".join(
            f'  {{ kind = "jsonl", language = "{language}", '
            f'path = "gs://corpus/raw/{number:02d}/*.jsonl" }},\n'
            for number, language in enumerate(languages)
        )
        (self.home / "run.toml").write_text(
            f'name = "cluster"\noutput_dir = "out"\n[clean]\nsources = [\n{listed}]\n'
            "[vocab]\nsize = 6000\n[encode]\nvalid_fraction = 0.1\n[pretrain]\n",
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

    def run(self, output: str, verb: str, options: Sequence[str] = ()) -> bool:
        """Run a stage; False, and a fault, if it failed."""
        start = time.monotonic()
        status = wait_for_end(self.start(output, verb, options))
        print(f"{output} {verb}: {time.monotonic() - start:.1f} s, status {status}", flush=True)
        if status:
            said = self.said(output, verb)[-600:]
            self.faults.append(f"{output} {verb}: status {status}: {said}")
        return status == 0

    def run_and_compare(self, output: str, options: Sequence[str], *verbs: str) -> None:
        """Run stages; a fault for each whose rows are not those of the local runner."""
        for verb in verbs:
            if not self.run(output, verb, options):
                continue
            local, other = (
                sorted_rows(self.home / name / STAGES[verb]) for name in ("local", output)
            )
            print(f"{output} {verb}: {len(local):,} rows, equal: {local == other}", flush=True)
            if local != other:
                num = len({*local} ^ {*other})
                self.faults.append(f"{output} {verb}: {num:,} rows are not the local runner's")

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


def check_stages(run: Run, cluster: Cluster) -> None:
    run.run_and_compare(cluster.name, cluster.options(), *STAGES)


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
            at_work = [host for host, workers in before.items() if run.workers_on(host) - workers]
        if process.poll() is not None or not at_work[0].kill(process_name):
            run.faults.append(f"{output}: there was nothing to kill")
        status = wait_for_end(process)
        said = run.said(output, "clean").splitlines() or [""]
        print(f"{output}: status {status}: {said[-1]}", flush=True)
        if what == "host" and at_work:
            cluster.start_worker(at_work[0])
            cluster.wait_for_workers()
        run.run_and_compare(output, options, "clean")  # a finished stage is left as it is
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
    run.run_and_compare(output, options, "clean")


def check_prism(run: Run) -> None:
    """Beam's engine for one machine, here the starting host; it has no pool and no other hosts."""
    options = ["--runner=PrismRunner", f"--prism_location={PRISM}"]
    run.run_and_compare("prism", options, *STAGES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, help="folder with corpora/; else the sample")
    parser.add_argument("--megabytes", type=float, default=4.0, help="of these texts")
    clusters = {"spark": Spark, "flink": Flink}
    engines = (*clusters, "prism")
    parser.add_argument("--engines", choices=engines, nargs="+", default=engines)
    checks = {"stages": check_stages, "kills": check_kills, "refusals": check_refusals}
    parser.add_argument("--only", choices=checks, nargs="+", default=list(checks))
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
        run.write_config(parsed.data_dir, parsed.megabytes)
        for verb in STAGES if "stages" in parsed.only else ("clean",):
            run.run("local", verb)
        for name in parsed.engines:
            if name == "prism":
                check_prism(run)
                continue
            cluster = clusters[name](head, tasks, run.bucket)
            with cluster.running():
                for check in parsed.only:
                    checks[check](run, cluster)
    for fault in run.faults:
        print(f"FAULT {fault}")
    print(f"{len(run.faults)} faults")
    return 1 if run.faults else 0


if __name__ == "__main__":
    sys.exit(main())
