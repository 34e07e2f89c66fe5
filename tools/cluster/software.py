"""What the clusters need, installed once below `ROOT/software`: some 4 GB."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tools.cluster.hosts import CHECKOUT, SOFTWARE

FLINK, SPARK, BEAM_GO = "1.19.3", "3.5.7", "v2.77.0"
FLINK_MINOR = FLINK.rpartition(".")[0]
VENV = SOFTWARE / "venv"
PRISM = SOFTWARE / "prism"
OTHER_CODE = SOFTWARE / "other-code"  # the wheel with another line in it


def install() -> None:
    """Install what is not there yet; the wheel of the checkout always."""
    SOFTWARE.mkdir(parents=True, exist_ok=True)
    _install_wheel()
    _install_jars("flink", "lib", f"apache-flink-libraries=={FLINK}")
    _install_jars("spark", "jars", f"pyspark=={SPARK}")
    for engine in ("flink", "spark"):
        _install_job_server(engine)
    if not PRISM.exists():
        module = f"github.com/apache/beam/sdks/v2/go/cmd/prism@{BEAM_GO}"
        _run("env", f"GOBIN={SOFTWARE}", "go", "install", module)


def job_server(engine: str) -> Path:
    return SOFTWARE / f"{engine}-job-server.jar"


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
    with (OTHER_CODE / "pipeline" / "clean.py").open("a", encoding="utf-8") as file:
        file.write("# of another day\n")


def _install_jars(engine: str, jars: str, package: str) -> None:
    """An engine's folder of jars, out of its package for Python."""
    if (SOFTWARE / engine / jars).exists():
        return
    folder = SOFTWARE / "download"
    pip = ("pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--dest", folder)
    _run(sys.executable, "-m", *pip, package)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (found,) = folder.glob(f"*/deps/{jars}")
    (SOFTWARE / engine).mkdir(exist_ok=True)
    shutil.move(found, SOFTWARE / engine / jars)
    shutil.rmtree(folder)


def _install_job_server(engine: str) -> None:
    """Beam's job server for an engine, made of Beam's libraries."""
    if job_server(engine).exists():
        return
    folder = SOFTWARE / "job-server"
    folder.mkdir(exist_ok=True)
    shutil.copy(CHECKOUT / "tools" / "cluster" / "job-server.xml", folder / "pom.xml")
    _run("mvn", "-B", "-q", "package", "-P", engine, cwd=folder)
    shutil.move(folder / "target" / "job-server-1.jar", job_server(engine))
    shutil.rmtree(folder)
