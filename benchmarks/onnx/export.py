"""Networks as ONNX files, each compared with torch on real text before it is written."""

import json
import logging
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.encoder import (
    ModelSource,
    accepted_inputs,
    is_discriminator,
    load_network,
    open_model,
    replaced_logits,
)
from benchmarks.training.network import ABOUT
from electrify.stage.folder import whole_file, write_json
from electrify.stage.networks import LABELS, make_portable, write_pooling
from electrify.stage.plan import TOKENIZER_FILES
from electrify.storage.files import read_json
from electrify.system.outcome import UserError

# the names that transformers.js, optimum, sentence-transformers and TEI look for
STATES, LOGITS = "last_hidden_state", "logits"
_OUTPUTS = (STATES, LOGITS, "start_logits", "end_logits")
FP32_FILE, INT8_FILE = "onnx/model.onnx", "onnx/model_quantized.onnx"  # beside config, tokenizer
_ENCODER = "AutoModel"
_HEADS = ("MaskedLM", "TokenClassification", "SequenceClassification", "QuestionAnswering")
_ANY: Any = transformers
MAX_DIFFERENCE = 1e-4
LENGTHS = (8, 128, 512)
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_SAMPLE = Path(__file__).parents[2] / "pipeline" / "sample"
_NUM_DOCUMENTS = 1000
Row = Mapping[str, NDArray[Any]]  # (L,) integers of each input; of outputs, each without a batch
Json = Mapping[str, Any]
Differences = dict[int, float]  # by length, to torch


class Network(nn.Module):
    """A network of `transformers` in single precision, with the outputs that readers look for.

    Takes tensors in the order of `inputs`, each (B, L) int64, and gives a tuple in the order of
    `outputs`, each (B, ...). `config` is what the config beside the ONNX file says in place of the
    source's.
    """

    def __init__(self, source: ModelSource, model: Any, detects: bool, config: Json) -> None:
        super().__init__()
        self.source, self.model, self.config = source, model.eval(), config
        self._detects = detects
        taken = accepted_inputs(getattr(model, model.base_model_prefix, model))
        self.inputs = tuple(name for name in taken if name != "position_ids")
        with torch.inference_mode():
            self.outputs = tuple(
                self._compute([torch.ones(1, 2, dtype=torch.int64)] * len(self.inputs))
            )

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self._compute(tensors).values())

    def _compute(self, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
        given = dict(zip(self.inputs, tensors, strict=True))
        if not self._detects:
            output = self.model(**given)
            return {name: output[name] for name in _OUTPUTS if name in output}
        states = self.model.base_model(**given).last_hidden_state
        if self.source.config.model_type == "electra":
            logits = self.model.discriminator_predictions(states)
        else:
            logits = replaced_logits(self.model.classifier(self.model.head(states)))
        return {STATES: states, LOGITS: torch.stack([torch.zeros_like(logits), logits], -1)}


def open_network(folder: Path, head: bool = True) -> Network:
    """The network of a folder, by the class that its config names; without `head` the encoder.

    A discriminator gives `last_hidden_state` (B, L, H) and `logits` (B, L, 2) of `LABELS`, a masked
    language model `logits` (B, L, V), a fine-tuned network `logits` or, of reading, `start_logits`
    and `end_logits`, every other class `last_hidden_state`.
    """
    source = open_model(str(folder))
    detects = head and is_discriminator(source)
    names = source.config.architectures or [_ENCODER]
    name = names[0] if detects or (head and names[0].endswith(_HEADS)) else _ENCODER
    # eager: the fused attention's graph has branches for empty rows
    model = load_network(source, getattr(_ANY, name), attn_implementation="eager")
    config: dict[str, Any] = {}
    if detects:  # ELECTRA's head has one logit, and no class of transformers that is served
        config["architectures"] = [name.replace("ForPreTraining", "ForTokenClassification")]
        config["id2label"] = {str(number): label for number, label in enumerate(LABELS)}
        config["label2id"] = {label: number for number, label in enumerate(LABELS)}
    elif not head:
        config["architectures"] = [type(model).__name__]
    return Network(source, model, detects, config)


def export_folder(
    source: Path, folder: Path, network: Network, texts: Sequence[str]
) -> Differences:
    """`export_network` into a folder with the config and the tokenizer of `source`, which may be it
    itself, as readers of ONNX files expect them."""
    differences = export_network(network, folder / FP32_FILE, texts)
    for name in (*TOKENIZER_FILES, ABOUT):
        if source != folder and (source / name).exists():
            shutil.copyfile(source / name, folder / name)
    config = read_json(source / "config.json") | network.config
    write_json(folder / "config.json", config)
    make_portable(folder)
    if network.outputs == (STATES,):
        write_pooling(folder)
    return differences


def require_onnx() -> None:
    """`ValueError` that names the extra, where a package is missing."""
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise UserError(f"{', '.join(missing)} not installed: pip install 'electrify[onnx]'")


def export_network(network: Network, file: Path, texts: Sequence[str]) -> Differences:
    """Write a network to `file`; by length the largest difference of any output to torch's.

    Weights are in single precision; batch and length are free, the length up to the positions that
    the model has. `texts` is real text for the comparison with torch: nothing is written where an
    output differs by more than `MAX_DIFFERENCE`.
    """
    graph = _converted(network)
    longest = min(network.source.max_positions or LENGTHS[-1], LENGTHS[-1])
    differences = {
        length: _difference(network, graph, real_rows(network.source, texts, length))
        for length in sorted({min(length, longest) for length in LENGTHS})
    }
    if (worst := max(differences.values())) > MAX_DIFFERENCE:
        raise UserError(
            f"{file.name} would differ from torch by {worst:.1e} (allowed {MAX_DIFFERENCE}): "
            "the installed torch, onnx or transformers may convert wrongly; pin them as "
            "constraints.txt does"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as temporary:
        temporary.write_bytes(graph.SerializeToString())
    return differences


def _converted(network: Network) -> Any:
    longest = network.source.max_positions
    size = 2, min(16, longest or 16)
    rows = tuple(torch.ones(size, dtype=torch.int64) for _ in network.inputs)  # one is traced once
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=longest)}
    # it warns of operators of torchvision
    with errors_alone("torch.onnx"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network,
            rows,
            dynamo=True,
            verbose=False,
            input_names=network.inputs,
            output_names=network.outputs,
            dynamic_shapes=((shape,) * len(network.inputs),),
        )
    assert program is not None
    graph = program.model_proto
    for node in graph.graph.node:
        del node.metadata_props[:]  # stack traces: paths of this machine
    return graph


@contextmanager
def errors_alone(name: str | None = None) -> Iterator[None]:
    """Without the warnings of a logger; None: of all."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


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
    """The largest one, of any number in any output, as a fraction of the largest number where that
    is above 1."""
    session = open_session(graph.SerializeToString(), 0)
    outputs = session.run(None, {name: rows[name] for name in network.inputs})
    with torch.inference_mode():
        expected = network(*(torch.from_numpy(rows[name]) for name in network.inputs))
    pairs = [(one, two.numpy()) for one, two in zip(outputs, expected, strict=True)]
    return max(float(np.abs(a - b).max() / max(1.0, np.abs(b).max())) for a, b in pairs)


def open_session(file: Path | bytes, num_threads: int = 1) -> Any:
    """A session of onnxruntime on the CPU, of a file or of its content; 0: a thread a core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def predict(file: Path, rows: Iterable[Row]) -> Iterator[dict[str, NDArray[Any]]]:
    """The outputs of each row, one row a run: a batch would share the scales of its activations.
    Those of a vocabulary are large: one row's are there at a time."""
    session = open_session(file)
    inputs, outputs = (
        [each.name for each in names] for names in (session.get_inputs(), session.get_outputs())
    )
    for row in rows:
        run = session.run(None, {name: row[name][None] for name in inputs})
        yield {name: of[0] for name, of in zip(outputs, run, strict=True)}


def documents(run: Path) -> list[str]:
    import pyarrow.parquet

    files = sorted((run / "clean").glob("documents-*.parquet"))
    if not files:
        return sample()
    batches = pyarrow.parquet.ParquetFile(files[0]).iter_batches(_NUM_DOCUMENTS, columns=["text"])
    texts: list[str] = next(batches).column("text").to_pylist()
    return texts


def sample() -> list[str]:
    """The bundled sample: Korean and English in turn."""
    korean = [
        json.loads(line)["text"]
        for path in sorted(_SAMPLE.glob("ko_[kls]*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    english = (_SAMPLE / "en.txt").read_text(encoding="utf-8").split("\n\n")
    in_turn = [text for pair in zip(korean, english, strict=False) for text in pair]
    return in_turn + korean[len(english) :]
