"""Fixtures of several modules."""

import logging
import os
import socket

import fsspec
import pytest

# gcsfs asks nobody else for credentials and kinds of buckets, here and in worker processes
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
os.environ["FSSPEC_GS_TOKEN"] = "anon"
fsspec.config.conf["gs"] = {"token": "anon"}


@pytest.fixture(scope="module")
def bucket():
    """An empty bucket `corpus` that gs:// addresses reach, in a local emulator of Cloud Storage."""
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    gcsfs = pytest.importorskip("gcsfs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logging.getLogger("gcp_storage_emulator").setLevel(logging.ERROR)
    server = emulator.create_server("127.0.0.1", port, in_memory=True)
    server.start()
    patch = pytest.MonkeyPatch()
    patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    try:
        gcsfs.GCSFileSystem.clear_instance_cache()
        filesystem = gcsfs.GCSFileSystem(token="anon")
        filesystem.mkdir("corpus")
        yield filesystem
    finally:
        patch.undo()
        gcsfs.GCSFileSystem.clear_instance_cache()
        server.stop()
