"""Training and its benchmarks import where nothing is installed but what a GPU host has."""

import subprocess
import sys

# what reads, cleans and encodes text, and draws reports
_ABSENT = (
    "apache_beam",
    "datasets",
    "pyarrow",
    "kiwipiepy",
    "orjson",
    "langcodes",
    "cloudpickle",
    "ftfy",
    "xxhash",
    "matplotlib",
    "sklearn",
    "mwparserfromhell",
    "pycld2",
    "py3langid",
    "accelerate",
)


def test_no_package_is_needed_beyond_those_of_a_gpu_host():
    names = ("__main__", "pretrain", "electra_peer", "finetune")
    modules = [*(f"tools.throughput.{n}" for n in names), "model.pretrain", "model.export"]
    program = f"import sys\nfor name in {_ABSENT}: sys.modules[name] = None\n"
    program += "".join(f"import {module}\n" for module in modules)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
