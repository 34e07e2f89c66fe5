"""The five import names are ours, and pins are plain versions."""

from importlib.metadata import distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("electrify", "pipeline", "vocab", "model", "benchmarks")


def test_import_names_belong_to_this_distribution_alone():
    """Nobody else claims them (an editable install itself lists no packages), and importing them
    finds the same checkout as `electrify`."""
    owners = packages_distributions()
    assert distribution("electrify").metadata["Name"] == "electrify"
    for name in PACKAGES:
        assert set(owners.get(name, [])) <= {"electrify"}
    found = [find_spec(name) for name in PACKAGES]
    assert len({Path(str(spec and spec.origin)).parents[1] for spec in found}) == 1
