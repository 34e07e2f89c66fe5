"""The job graphs for Dataflow, made by the documented command. Nothing is run: that needs Google's
service. The test needs `apache-beam[gcp]`, which `make cluster-test` installs."""

import json
import re
import shlex
from pathlib import Path

import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from electrify.cli import main

pytest.importorskip("google.cloud.dataflow")
ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "pipeline" / "sample"
(COMMAND,) = re.findall(
    r"^electrify clean CONFIG .+ -- (--runner=DataflowRunner .+)$",
    (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_the_documented_command_makes_a_job_graph_of_each_stage(
    tmp_path, bucket, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for source in SAMPLE.glob("ko_*.jsonl"):
        bucket.put(str(source), f"corpus/raw/{source.name}")
    Path("run.toml").write_text(
        'name = "graph"\noutput_dir = "out"\nbeam.work_dir = "gs://corpus/tmp"\n[clean]\n'
        'sources = [{ kind = "jsonl", language = "ko", path = "gs://corpus/raw/*.jsonl" }]\n'
        "[vocab]\nsize = 4000\n[encode]\nvalid_fraction = 0.1\n"
        f'[evaluate]\nown_tasks = [{{ train = "{SAMPLE}/made-up-headlines.json" }}]\n',
        encoding="utf-8",
    )
    Path("dist").mkdir()
    Path("dist/electrify-0.1.0-py3-none-any.whl").touch()
    template = ("--template_location=gs://corpus/job.json", "--no_auth")
    words = [*shlex.split(COMMAND.replace("gs://bucket", "gs://corpus")), *template]
    for verb in ("clean", "train-vocab", "encode"):
        assert main([verb, "run.toml", "--", *words]) == 1
        assert "--template_location: Beam has built the job graph" in capsys.readouterr().err
        _check(bucket)
        assert main([verb, "run.toml"]) == 0  # what the next stage reads


def _check(bucket):
    """The job is what the command asks for, with a graph for Dataflow's containers."""
    job = json.loads(bucket.cat("corpus/job.json"))
    (pool,) = job["environment"]["workerPools"]
    (container,) = pool["sdkHarnessContainerImages"]
    assert f"--sdk_container_image={container['containerImage']} " in COMMAND
    assert (pool["machineType"], pool["numThreadsPerWorker"]) == ("n2-standard-4", 1)
    url = job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"]
    parts = beam_runner_api_pb2.Pipeline.FromString(bucket.cat(url)).components
    urns = {transform.spec.urn for transform in parts.transforms.values()}
    assert {"beam:transform:pardo:v1", "beam:transform:group_by_key:v1"} <= urns
    used = {transform.environment_id for transform in parts.transforms.values()} - {""}
    assert {parts.environments[name].urn for name in used} == {"beam:env:docker:v1"}
    bucket.rm("corpus/job.json")
