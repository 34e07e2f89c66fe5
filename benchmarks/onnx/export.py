"""A network as an ONNX file, compared with torch on real text before it is written."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.encoder import ModelSource
from benchmarks.onnx.networks import Network, open_network
from benchmarks.onnx.predict import open_session
from electrify.system.outcome import UserError

MAX_DIFFERENCE = 1e-4
LENGTHS = (8, 128, 512)
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


@dataclass(frozen=True)
class Exported:
    """What a file holds, and by length the largest difference of any output to torch's."""

    file: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    differences: Mapping[int, float]


def export_onnx(folder: Path, file: Path, texts: Sequence[str]) -> Exported:
    """Write the network of a `transformers` folder to `file`, as `open_network` has it.

    Weights are in single precision; batch and length are free, the length up to the positions that
    the model has. `texts` is real text for the comparison with torch.
    Raises `ValueError` where onnx is not installed, the folder is no model, the text is too short
    or an output differs from torch's by more than `MAX_DIFFERENCE`; then nothing is written.
    """
    require_onnx()
    return export_network(open_network(folder), file, texts)


def require_onnx() -> None:
    """`ValueError` that names the extra, where a package is missing."""
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise UserError(f"{', '.join(missing)} not installed: pip install -e '.[onnx]'")


def export_network(network: Network, file: Path, texts: Sequence[str]) -> Exported:
    """`export_onnx` of a network in memory."""
    graph = _converted(network)
    _name_after_modules(graph)
    differences = {
        length: _difference(network, graph, rows)
        for length in checked_lengths(network.source)
        for rows in [real_rows(network.source, texts, length)]
    }
    if (worst := max(differences.values())) > MAX_DIFFERENCE:
        raise UserError(
            f"{file.name} would differ from torch by {worst:.1e} (allowed {MAX_DIFFERENCE}): "
            "the installed torch, onnx or transformers may convert wrongly; pin them as "
            "constraints.txt does"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    torn = file.with_suffix(".partial")
    torn.write_bytes(graph.SerializeToString())
    torn.replace(file)
    return Exported(file, network.inputs, network.outputs, differences)


def _converted(network: Network) -> Any:
    """The network as an `onnx.ModelProto`."""
    longest = network.source.max_positions
    size = 2, min(16, longest or 16)
    rows = tuple(torch.ones(size, dtype=torch.int64) for _ in network.inputs)  # one is traced once
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=longest)}
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it warns of operators of torchvision
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                network.module,
                rows,
                dynamo=True,
                verbose=False,
                input_names=network.inputs,
                output_names=network.outputs,
                dynamic_shapes=((shape,) * len(network.inputs),),
            )
    finally:
        logger.setLevel(level)
    assert program is not None
    return program.model_proto


def _name_after_modules(graph: Any) -> None:
    """Give each node the name of the module that it comes from: `encoder.layer.0.output.dense/3`.

    So a layer can be named where it is to stay in fp32.
    """
    for number, node in enumerate(graph.graph.node):
        about = {entry.key: entry.value for entry in node.metadata_props}
        scopes = about.get("pkg.torch.onnx.name_scopes", "").strip("[]").replace("'", "")
        module = [scope for scope in scopes.split(", ") if "." in scope][-1:]
        node.name = f"{''.join(module).partition('.')[2]}/{node.op_type}.{number}"
        del node.metadata_props[:]  # stack traces: paths of this machine


def checked_lengths(source: ModelSource) -> tuple[int, ...]:
    """`LENGTHS`, of which those beyond the model's positions are lowered to them."""
    longest = min(source.max_positions or LENGTHS[-1], LENGTHS[-1])
    return tuple(sorted({min(length, longest) for length in LENGTHS}))


def real_rows(source: ModelSource, texts: Sequence[str], length: int) -> dict[str, NDArray[Any]]:
    """Two rows of text, (2, length) each: one full, one half full and padded."""
    first, second = (
        source.tokenizer(
            "\n".join(texts), truncation=True, max_length=pieces, return_token_type_ids=True
        )
        for pieces in (length, length // 2)
    )
    if len(first["input_ids"]) < length:
        raise UserError(
            f"the text has {len(first['input_ids'])} pieces, {length} are needed to compare with "
            "torch: give more text"
        )
    rows = source.tokenizer.pad([first, second], padding="max_length", max_length=length)
    return {name: np.asarray(of, dtype=np.int64) for name, of in rows.items()}


def _difference(network: Network, graph: Any, rows: Mapping[str, NDArray[Any]]) -> float:
    """The largest one, of any number in any output."""
    session = open_session(graph.SerializeToString(), 0)
    found = session.run(None, {name: rows[name] for name in network.inputs})
    with torch.inference_mode():
        expected = network.module(*(torch.from_numpy(rows[name]) for name in network.inputs))
    return max(
        float(np.abs(one - two.numpy()).max()) for one, two in zip(found, expected, strict=True)
    )
