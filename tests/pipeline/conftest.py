"""Fixtures of several modules."""

import fsspec
import pytest

from tests.faulty_storage import storage_of_gs


@pytest.fixture(scope="module")
def bucket():
    """An empty bucket `corpus` that gs:// addresses reach, in a local emulator of Cloud Storage."""
    with storage_of_gs("corpus"):
        yield fsspec.filesystem("gs", token="anon")
