"""Arrays are written as numpy writes them, but for what a full disk raises."""

import errno
from pathlib import Path

import numpy as np
import pytest

from electrify.storage.files import save_array


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5, dtype=np.uint16),
        np.zeros(0, np.int64),
        np.ones((2, 3), np.float32)[:, ::2],
        np.zeros(3, [("a", "i4"), ("b", "u1")]),
    ],
)
def test_the_bytes_are_numpy_s(tmp_path, array):
    save_array(tmp_path / "a.npy", array)
    np.save(tmp_path / "b.npy", np.ascontiguousarray(array))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
def test_a_full_disk_has_its_number():
    with pytest.raises(OSError, match="No space left") as raised:
        save_array(Path("/dev/full"), np.zeros(100_000))
    assert raised.value.errno == errno.ENOSPC
