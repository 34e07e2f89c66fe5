"""Outputs of an ONNX file, a row at a time as it is served; on another processor by an emulator.

Run as a script it needs numpy and onnxruntime alone: `predict.py MODEL ROWS OUTPUTS`.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electrify.system.outcome import UserError

Row = Mapping[str, NDArray[Any]]  # (L,) integers of each input; of outputs, each without a batch


def open_session(file: Path | bytes, num_threads: int = 1) -> Any:
    """A session of onnxruntime on the CPU, of a file or of its content; 0: a thread a core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def predict(file: Path, rows: Iterable[Row]) -> list[dict[str, NDArray[Any]]]:
    """The outputs of each row, one row a run: a batch would share the scales of its activations."""
    session = open_session(file)
    inputs = [each.name for each in session.get_inputs()]
    outputs = [each.name for each in session.get_outputs()]
    return [
        {
            name: array[0]
            for name, array in zip(
                outputs,
                session.run(None, {name: row[name][None] for name in inputs}),
                strict=True,
            )
        }
        for row in rows
    ]


def predict_emulated(
    command: Sequence[str], file: Path, rows: Sequence[Row]
) -> list[dict[str, NDArray[Any]]]:
    """`predict` under `command`, such as `qemu-x86_64 -cpu Haswell python`."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "rows.npz", Path(folder) / "outputs.npz"
        _write(given, rows)
        done = subprocess.run([*command, __file__, file, given, made], capture_output=True)
        if done.returncode:
            raise UserError(f"{' '.join(command)} failed: {done.stderr.decode()[-500:]}")
        return _read(made)


def _write(path: Path, rows: Iterable[Row]) -> None:
    arrays: Any = {
        f"{place}/{name}": of for place, row in enumerate(rows) for name, of in row.items()
    }
    np.savez(path, **arrays)


def _read(path: Path) -> list[dict[str, NDArray[Any]]]:
    found: dict[int, dict[str, NDArray[Any]]] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            place, _, name = key.partition("/")
            found.setdefault(int(place), {})[name] = arrays[key]
    return [found[place] for place in sorted(found)]


if __name__ == "__main__":
    _write(Path(sys.argv[3]), predict(Path(sys.argv[1]), _read(Path(sys.argv[2]))))
