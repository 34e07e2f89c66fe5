"""What a cluster needs, installed once below `ROOT/software`: some 2 GB."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.cluster.hosts import CHECKOUT, SOFTWARE

FLINK = "1.19.3"
FLINK_MINOR = FLINK.rpartition(".")[0]
VENV = SOFTWARE / "venv"
JOB_SERVER = SOFTWARE / f"flink-{FLINK_MINOR}-job-server.jar"
OTHER_CODE = SOFTWARE / "other-code"  # the wheel with another line in it


def install() -> None:
    """Install what is not there yet; the wheel of the checkout always."""
    SOFTWARE.mkdir(parents=True, exist_ok=True)
    _install_wheel()
    if not (SOFTWARE / "flink" / "lib").exists():
        _install_flink()
    if not JOB_SERVER.exists():
        _install_job_server()


def _run(*words: str | Path, cwd: Path | None = None) -> None:
    print("+", *words, flush=True)
    subprocess.run([*map(str, words)], check=True, cwd=cwd)


def _install_wheel() -> None:
    """An environment that has the wheel, and no checkout."""
    folder = SOFTWARE / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    build = ("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    _run(sys.executable, "-m", *build, CHECKOUT)
    (wheel,) = folder.glob("*.whl")
    mark = SOFTWARE / "constraints.sha256"
    constraints = CHECKOUT / "constraints.txt"
    digest = hashlib.sha256(constraints.read_bytes()).hexdigest()
    pip = (VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", constraints)
    if not mark.exists() or mark.read_text() != digest:
        _run(sys.executable, "-m", "venv", VENV)
        _run(*pip, f"{wheel}[pipeline]")
        mark.write_text(digest)
    _run(*pip, "--force-reinstall", "--no-deps", wheel)
    shutil.rmtree(OTHER_CODE, ignore_errors=True)
    shutil.unpack_archive(wheel, OTHER_CODE, "zip")
    with (OTHER_CODE / "pipeline" / "passes.py").open("a", encoding="utf-8") as file:
        file.write("# of another day\n")


def _install_flink() -> None:
    """Flink's jars, of its package for Python."""
    folder = SOFTWARE / "download"
    package = f"apache-flink-libraries=={FLINK}"
    pip = ("pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--dest", folder)
    _run(sys.executable, "-m", *pip, package)
    (archive,) = folder.glob("apache*flink*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (lib,) = folder.glob("*/deps/lib")
    (SOFTWARE / "flink").mkdir(exist_ok=True)
    shutil.move(lib, SOFTWARE / "flink" / "lib")
    shutil.rmtree(folder)


def _install_job_server() -> None:
    """Beam's job server for Flink, made of Beam's libraries."""
    folder = SOFTWARE / "job-server"
    folder.mkdir(exist_ok=True)
    shutil.copy(CHECKOUT / "tests" / "cluster" / "job-server.xml", folder / "pom.xml")
    _run("mvn", "-B", "-q", "package", cwd=folder)
    shutil.move(folder / "target" / "job-server-1.jar", JOB_SERVER)
    shutil.rmtree(folder)
