"""Paths that workers on other machines cannot open are refused, by their keys."""

import pytest
from apache_beam.options.pipeline_options import StandardOptions

from electrify.cli import main
from electrify.config.load import parse_config
from electrify.config.names import RUNNERS
from pipeline import worker_files
from pipeline.worker_files import check_worker_files

MOUNTS = """\
22 1 0:21 / / rw - ext4 /dev/vda rw
23 22 0:22 / /mnt/the\\040share rw shared:1 - nfs4 head:/export rw
24 23 0:23 / /mnt/the\\040share/disk rw - xfs /dev/vdb rw
25 22 0:24 / /mnt/fuse rw - fuse.sshfs head:/home rw
"""
SHARE = "/mnt/the share"
ELSEWHERE = ["--runner=FlinkRunner", "--flink_master=host:8081"]


@pytest.fixture(autouse=True)
def _mounts(tmp_path, monkeypatch):
    (tmp_path / "mountinfo").write_text(MOUNTS, encoding="utf-8")
    monkeypatch.setattr(worker_files, "_MOUNTS", tmp_path / "mountinfo")


def _check(verb, options=ELSEWHERE, path="gs://a/*", output_dir=SHARE, kind="jsonl", **beam):
    source = {"kind": kind, "language": "ko", "path": path}
    config = {
        "name": "t",
        "output_dir": output_dir,
        "beam": {"work_dir": "gs://a/tmp"} | beam,
        "clean": {"sources": [source]},
    }
    check_worker_files(parse_config(config), options, verb)


REFUSED = [
    ("clean", {"path": "file:///data/*"}, ["clean.sources[0].path = 'file:///data/*'"]),
    ("clean", {"path": f"{SHARE}/disk/*"}, [f"clean.sources[0].path = '{SHARE}/disk/*'"]),
    ("clean", {"work_dir": None, "output_dir": "out"}, ["no beam.work_dir"]),
    ("clean", {"work_dir": "/tmp"}, ["beam.work_dir = '/tmp'"]),
    ("encode", {"output_dir": "out", "path": "a/*", "work_dir": None}, ["no beam.work_dir"]),
    ("leakage", {"work_dir": "tmp"}, ["beam.work_dir = 'tmp'"]),
    (
        "ablate",
        {"path": "a", "work_dir": "b", "output_dir": "c"},
        ["clean.sources[0].path = 'a'; beam.work_dir = 'b'"],
    ),
]


@pytest.mark.parametrize(("verb", "settings", "named"), REFUSED)
def test_what_workers_elsewhere_cannot_open_is_named(verb, settings, named):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        _check(verb, **settings)
    (keys,) = named
    assert f"of FlinkRunner do not see the disk of this machine: {keys}. " in str(refused.value)


@pytest.mark.parametrize(
    ("verb", "settings"),
    [
        ("clean", {}),
        ("clean", {"output_dir": "out"}),  # documents come to this machine at the end
        ("clean", {"path": f"{SHARE}/a/*", "work_dir": "/mnt/fuse/tmp"}),
        ("clean", {"path": "user/data", "kind": "huggingface"}),
        ("run", {}),
        ("run", {"output_dir": "out"}),
        ("clean", {"work_dir": None}),  # the work folder is in output_dir, on a mount
        ("encode", {"path": "data/*", "work_dir": None}),  # which opens documents alone
    ],
)
def test_what_they_can_open_is_not(verb, settings):
    _check(verb, **settings)


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--runner", "direct"],
        [*ELSEWHERE, "--environment_type=LOOPBACK"],
        [
            "--runner=PortableRunner",
            "--environment_type",
            "EXTERNAL",
            "--environment_config=localhost:50000",
        ],
        [*ELSEWHERE, "--runner=local"],
    ],
)
def test_workers_on_this_machine_see_its_disk(options):
    _check("run", options, path="data/*", output_dir="out", work_dir=None)


@pytest.mark.parametrize(
    "cluster", ["--flink_master=jm:8081", "--spark_master_url=spark://m:7077", "--job_endpoint=m:1"]
)
def test_pools_at_localhost_of_other_hosts_do_not(cluster):
    pool = ["--environment_type=EXTERNAL", "--environment_config=localhost:50000"]
    runner = "PortableRunner" if "endpoint" in cluster else "FlinkRunner"
    with pytest.raises(ValueError, match=r"clean\.sources\[0\]\.path = 'data'"):
        _check("clean", [f"--runner={runner}", cluster, *pool], path="data")
    host = cluster.replace("jm:", "m:").replace("m:", "localhost:")
    _check("clean", [f"--runner={runner}", host, *pool], path="data")


@pytest.mark.parametrize("runner", ["spark", "my.own.Runner"])
def test_the_runner_of_the_config_counts_too(runner):
    with pytest.raises(ValueError, match=r"clean\.sources\[0\]\.path = 'data'"):
        _check("clean", (), path="data", runner=runner)
    with pytest.raises(ValueError, match="'FlinkRuner' is no Beam runner; did you mean FlinkR"):
        _check("clean", ["--runner=FlinkRuner"])
    loopback = ["--environment_type=LOOPBACK"]
    with pytest.raises(ValueError, match=r"no beam\.work_dir"):  # of which no worker is here
        _check("clean", loopback, runner="dataflow", work_dir=None, output_dir="out")


@pytest.mark.parametrize("verb", ["clean", "encode"])
def test_verbs_refuse_before_work(verb, tmp_path, capsys):
    words = [verb, "configs/demo.toml", "--set", f"output_dir='{tmp_path / 'run'}'"]
    assert main([*words, "--", "--runner", "FlinkRunner"]) == 1
    assert "of FlinkRunner do not see the disk of this machine" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_names_are_beams():
    assert sorted(RUNNERS) == sorted(StandardOptions.KNOWN_RUNNER_NAMES)
