"""Fixtures of several modules."""

import os

import fsspec
import pytest

from tests.faulty_storage import faulty_storage

# gcsfs asks nobody else for credentials and kinds of buckets, here and in worker processes
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
os.environ["FSSPEC_GS_TOKEN"] = "anon"
fsspec.config.conf["gs"] = {"token": "anon"}


@pytest.fixture(scope="module")
def bucket():
    """An empty bucket `corpus` that gs:// addresses reach, in a local emulator of Cloud Storage."""
    pytest.importorskip("gcp_storage_emulator.server")
    gcsfs = pytest.importorskip("gcsfs")
    with faulty_storage(0.0, 0, "corpus") as (_, url), pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", url)
        gcsfs.GCSFileSystem.clear_instance_cache()
        yield gcsfs.GCSFileSystem(token="anon")
    gcsfs.GCSFileSystem.clear_instance_cache()
