"""The five import names are ours, and pins are plain versions."""

from importlib.metadata import distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = ("electrify", "pipeline", "vocab", "model", "benchmarks")


@pytest.mark.parametrize("name", PACKAGES)
def test_import_name_belongs_to_this_distribution_alone(name: str):
    """Nobody else claims the name (an editable install itself lists no packages), and importing it
    finds the same checkout as `electrify`."""
    assert set(packages_distributions().get(name, [])) <= {"electrify"}
    assert distribution("electrify").metadata["Name"] == "electrify"
    ours, this = find_spec("electrify"), find_spec(name)
    assert ours is not None
    assert this is not None
    assert Path(str(this.origin)).parents[1] == Path(str(ours.origin)).parents[1]
