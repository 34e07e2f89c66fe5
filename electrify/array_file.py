"""Arrays in files of their own."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write, in C order, what `np.save` writes, to a path that ends in .npy.

    On a full disk this is an `OSError` that has the system's number. `np.save` raises one without:
    "33586 requested and 26560 written".
    """
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data)
