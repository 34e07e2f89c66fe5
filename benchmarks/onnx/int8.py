"""int8: matrix products by the dynamic quantisation of onnxruntime, embeddings by row; and what it
loses to fp32, on a task's reported examples or tokens of real text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.encoder import ModelSource, is_language_model
from benchmarks.onnx.export import LOGITS, Row, errors_alone, predict
from benchmarks.results.predictions import plain, score_predictions
from benchmarks.results.results import percent
from benchmarks.statistics.uncertainty import Draws, Interval, difference, resample, resample_scores
from benchmarks.tasks.labels import MultiLabelClassification, Regression
from benchmarks.tasks.task import Example
from benchmarks.training.network import Kept
from electrify.system.progress import Progress

# Processors with AVX2 or AVX512 but without VNNI add two products of 8 bits in 16, which overflow:
# with 7-bit weights no sum does.
_PRODUCT_LEVELS, _LOOKED_UP_LEVELS = 63, 127
MASKED_FRACTION = 0.15
MAX_LOST = 0.01  # of a score
MIN_AGREEMENT = 0.99
MIN_TASKS = 4  # that an encoder is scored on
_MIN_ROWS = 64  # of an embedding matrix: token types and the like stay as they are
_MAX_TEXTS = 400


def quantize(file_in: Path, file_out: Path) -> None:
    """Write an fp32 file of `export_network` in int8."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(file_in)
    quantize_embeddings(model)
    with errors_alone():  # it advises a step that is of no use here
        quantize_dynamic(
            model,
            file_out,
            op_types_to_quantize=["MatMul"],
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
        )


def quantize_embeddings(model: Any) -> None:
    """Put int8 in place of every matrix that is looked up by row.

    Each row has a scale, which onnxruntime's quantiser does not do: one scale for a whole matrix is
    set by its largest number, and rare pieces, whose rows are small, lose most of their bits. Where
    it is the vocabulary head's weight, too, both read the same int8.

    Numbers go up to 127, or to 63 where a matrix product reads the matrix, too.
    """
    from onnx import numpy_helper

    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    matrices = {
        node.input[0]
        for node in graph.node
        if node.op_type == "Gather"
        and node.input[0] in weights
        and len(weights[node.input[0]].dims) == 2
        and weights[node.input[0]].dims[0] >= _MIN_ROWS
    }
    for name in sorted(matrices):
        matrix = numpy_helper.to_array(weights[name])
        is_looked_up_alone = all(node.op_type == "Gather" for node in _readers(graph, name))
        levels = np.float32(_LOOKED_UP_LEVELS if is_looked_up_alone else _PRODUCT_LEVELS)
        scales = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-12) / levels
        rows = np.rint(matrix / scales).astype(np.int8)
        graph.initializer.append(numpy_helper.from_array(rows, f"{name}.int8"))
        graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scale"))
        if all(_replace(graph, node, name) for node in _readers(graph, name)):
            graph.initializer.remove(weights[name])


def _readers(graph: Any, name: str) -> list[Any]:
    return [node for node in graph.node if name in node.input]


def _replace(graph: Any, node: Any, name: str) -> bool:
    """Whether a node that reads the matrix now reads the int8 one."""
    from onnx import TensorProto, helper

    rows, scales, out = f"{name}.int8", f"{name}.scale", node.output[0]

    def make(kind: str, inputs: list[str], *outputs: str, **options: Any) -> Any:
        return helper.make_node(kind, inputs, outputs, f"{node.name}.{outputs[0]}", **options)

    if node.op_type == "Gather":
        ids = node.input[1]
        made = [
            make("Gather", [rows, ids], f"{out}.int8"),
            make("Cast", [f"{out}.int8"], f"{out}.cast", to=TensorProto.FLOAT),
            make("Gather", [scales, ids], f"{out}.scale"),
            make("Mul", [f"{out}.cast", f"{out}.scale"], out),
        ]
        _put(graph, node, made)
        return True
    readers = _readers(graph, out)
    if node.op_type != "Transpose" or [each.op_type for each in readers] != ["MatMul"]:
        return False
    product = readers[0]
    x, y = product.input[0], product.output[0]
    quantized = [f"{y}.input", f"{y}.input_scale", f"{y}.zero"]
    made = [
        make("Transpose", [rows], f"{out}.int8", perm=[1, 0]),
        make("DynamicQuantizeLinear", [x], *quantized),
        make("MatMulInteger", [quantized[0], f"{out}.int8", quantized[2]], f"{y}.sums"),
        make("Cast", [f"{y}.sums"], f"{y}.cast", to=TensorProto.FLOAT),
        make("Transpose", [scales], f"{out}.scale", perm=[1, 0]),
        make("Mul", [quantized[1], f"{out}.scale"], f"{y}.scale"),
        make("Mul", [f"{y}.cast", f"{y}.scale"], y),
    ]
    graph.node.remove(node)
    _put(graph, product, made)
    return True


def _put(graph: Any, node: Any, made: list[Any]) -> None:
    place = list(graph.node).index(node)
    graph.node.remove(node)
    for offset, new in enumerate(made):
        graph.node.insert(place + offset, new)


# What it loses.


@dataclass(frozen=True)
class Outcome:
    """What a file says: predictions, one an example or a token, and their score."""

    predictions: Sequence[Any]
    score: float
    draws: Draws  # the score on resampled examples


@dataclass(frozen=True)
class Benchmark:
    """Rows with what their outputs are worth."""

    name: str
    metric: str
    unit: str  # what agreement counts
    rows: Sequence[Row]
    outcome: Callable[[Iterable[Row]], Outcome]  # of the outputs of all rows
    must_agree: bool = True  # False: the score alone decides


def task_benchmark(kept: Kept, examples: Sequence[Example]) -> Benchmark:
    """Examples of a fine-tuned network's task.

    Agreement is by example; where a prediction is a sequence (tags), by element. Of numbers none is
    asked for: their last digits differ.
    """
    task = kept.task
    length = kept.settings.max_sequence_length
    features = task.featurize(examples, kept.source.tokenizer, length, train=False)

    def outcome(outputs: Iterable[Row]) -> Outcome:
        predictions = plain(task.predictions(examples, features, list(outputs)))
        values: list[Any] = []
        for prediction in predictions:
            one = prediction["prediction"]
            if isinstance(task, MultiLabelClassification):
                values.append(tuple(one))
            else:
                values += one if isinstance(one, list) else [one]
        score = score_predictions(task, predictions)[task.headline]
        return Outcome(values, score, resample(task, {0: predictions}))

    padding = kept.source.tokenizer.pad_token_id  # the last piece of a row of KLUE-NER
    rows = [
        {
            "input_ids": ids.astype(np.int64),
            "attention_mask": (ids != padding).astype(np.int64),
            "token_type_ids": types.astype(np.int64),
        }
        for ids, types in zip(features.input_ids, features.token_type_ids, strict=True)
    ]
    must_agree = not isinstance(task, Regression)
    return Benchmark(task.name, task.headline, "predictions", rows, outcome, must_agree)


def token_benchmark(source: ModelSource, texts: Sequence[str]) -> Benchmark:
    """Real text with `MASKED_FRACTION` of its pieces hidden, for a masked language model or a
    discriminator: the fraction of tokens rightly predicted.

    A discriminator judges every token where pieces of all texts were drawn for the hidden ones; a
    generator predicts the masked tokens. Its agreement decides nothing: which of all pieces is the
    likeliest changes at the least rounding.
    """
    rng = np.random.default_rng(0)
    originals, places = [], []
    for text in texts[:_MAX_TEXTS]:
        encoded = source.tokenizer(text, truncation=True, max_length=source.max_positions)
        ids = np.array(encoded["input_ids"], dtype=np.int64)
        if len(ids) > 2:
            count = max(1, round(MASKED_FRACTION * (len(ids) - 2)))
            originals.append(ids)
            places.append(np.sort(1 + rng.choice(len(ids) - 2, count, replace=False)))
    is_masked = is_language_model(source)
    if is_masked:
        name, mask = "masked tokens", source.tokenizer.mask_token_id
        drawn = [np.full(len(at), mask) for at in places]
    else:
        name, pieces = "replaced tokens", np.concatenate([ids[1:-1] for ids in originals])
        drawn = [rng.choice(pieces, len(at)) for at in places]
    rows = [ids.copy() for ids in originals]
    for ids, at, new in zip(rows, places, drawn, strict=True):
        ids[at] = new
    if is_masked:
        gold = [ids[at] for ids, at in zip(originals, places, strict=True)]
    else:
        gold = [(a != b)[1:-1] for a, b in zip(rows, originals, strict=True)]
    judged = places if is_masked else [np.arange(1, len(ids) - 1) for ids in rows]
    counts = np.array([float(len(of)) for of in gold])

    def outcome(outputs: Iterable[Row]) -> Outcome:
        said = [of[LOGITS][at].argmax(-1) for of, at in zip(outputs, judged, strict=True)]
        right = np.array([float((a == b).sum()) for a, b in zip(said, gold, strict=True)])
        scorers = {0: lambda drawn: float(right[drawn].sum() / counts[drawn].sum())}
        draws = resample_scores(name, len(gold), scorers)
        predictions = np.concatenate(said).astype(int).tolist()
        return Outcome(predictions, float(right.sum() / counts.sum()), draws)

    inputs = [_row(ids) for ids in rows]
    return Benchmark(name, "accuracy", "tokens", inputs, outcome, must_agree=not is_masked)


def _row(ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    zeros, ones = np.zeros_like(ids), np.ones_like(ids)
    return {"input_ids": ids, "attention_mask": ones, "token_type_ids": zeros}


@dataclass(frozen=True)
class Loss:
    """One file in int8 beside fp32."""

    benchmark: str
    metric: str
    unit: str
    num_units: int
    fp32: float
    int8: float
    lost: Interval  # in the score, above 0 where int8 is worse
    agreement: float  # fraction of units with the same prediction
    must_agree: bool = True
    is_constant: bool = False  # fp32 predicts one thing everywhere, and int8 cannot differ


def measure(benchmark: Benchmark, fp32_file: Path, int8_file: Path) -> Loss:
    with Progress(f"{benchmark.name}, fp32 and int8", 2 * len(benchmark.rows), "rows") as progress:

        def counted(file: Path) -> Iterator[Row]:
            for row in predict(file, benchmark.rows):
                yield row
                progress.update()

        fp32, int8 = (benchmark.outcome(counted(file)) for file in (fp32_file, int8_file))
    return Loss(
        benchmark.name,
        benchmark.metric,
        benchmark.unit,
        len(fp32.predictions),
        fp32.score,
        int8.score,
        difference({0: fp32.score}, fp32.draws, {0: int8.score}, int8.draws),
        float(np.mean([a == b for a, b in zip(fp32.predictions, int8.predictions, strict=True)])),
        benchmark.must_agree,
        is_constant=len(set(fp32.predictions)) == 1,
    )


def problems(losses: Sequence[Loss]) -> list[str]:
    """Where int8 loses too much or what it loses is not known, in words."""
    reasons = []
    for loss in losses:
        if loss.is_constant:
            reasons.append(f"{loss.benchmark} says nothing: fp32 predicts the same everywhere")
        if not loss.lost.value <= MAX_LOST:
            reasons.append(
                f"{loss.benchmark} loses {percent(loss.lost.value)} points of {loss.metric} "
                f"(allowed {percent(MAX_LOST)})"
            )
        if loss.must_agree and not loss.agreement >= MIN_AGREEMENT:
            reasons.append(
                f"{loss.benchmark} agrees with fp32 on {percent(loss.agreement)} % of "
                f"{loss.num_units:,} {loss.unit} (needed {percent(MIN_AGREEMENT)})"
            )
    return reasons
