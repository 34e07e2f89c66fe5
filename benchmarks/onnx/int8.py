"""int8: matrix products by the dynamic quantisation of onnxruntime, embeddings by row; and what it
loses to fp32, on a task's reported examples or tokens of real text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.encoder import ModelSource
from benchmarks.onnx.export import LOGITS, Row, errors_alone, predict
from benchmarks.results.predictions import plain, score_predictions
from benchmarks.results.results import percent
from benchmarks.statistics.uncertainty import Draws, Interval, difference, resample, resample_scores
from benchmarks.tasks.labels import MultiLabelClassification, Regression
from benchmarks.tasks.task import Example
from benchmarks.training.network import Kept
from electrify.system.progress import Progress

_LEVELS = np.float32(127)  # of a row that is looked up
_REPLACED_FRACTION = 0.15
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
            # 7 bits: processors with AVX2 or AVX512 but without VNNI add two products of 8 bits in
            # 16, which overflow
            reduce_range=True,
        )


def quantize_embeddings(model: Any) -> None:
    """Put int8 in place of every matrix that is looked up by row.

    Each row has a scale, which onnxruntime's quantiser does not do: one scale for a whole matrix is
    set by its largest number, and rare pieces, whose rows are small, lose most of their bits. Where
    a vocabulary head has the same matrix, transposed, it gets one of its own for the quantiser.
    """
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    for tensor in list(graph.initializer):
        name = tensor.name
        readers = [node for node in graph.node if name in node.input]
        looked_up = [node for node in readers if node.op_type == "Gather"]
        if not looked_up or len(tensor.dims) != 2 or tensor.dims[0] < _MIN_ROWS:
            continue
        matrix = numpy_helper.to_array(tensor)
        scales = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-12) / _LEVELS
        rows = np.rint(matrix / scales).astype(np.int8)
        graph.initializer.append(numpy_helper.from_array(rows, f"{name}.int8"))
        graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scale"))
        for node in readers:
            out, place = node.output[0], list(graph.node).index(node)
            made = []
            if node in looked_up:
                found = [f"{out}.{part}" for part in ("int8", "cast", "scale")]
                made = [
                    helper.make_node("Gather", [f"{name}.int8", node.input[1]], found[:1]),
                    helper.make_node("Cast", found[:1], found[1:2], to=TensorProto.FLOAT),
                    helper.make_node("Gather", [f"{name}.scale", node.input[1]], found[2:]),
                    helper.make_node("Mul", found[1:], [out]),
                ]
            elif node.op_type == "Transpose":
                turned = np.ascontiguousarray(matrix.T)
                graph.initializer.append(numpy_helper.from_array(turned, out))
            else:
                continue
            graph.node.remove(node)
            for offset, new in enumerate(made):
                graph.node.insert(place + offset, new)
        if not any(name in node.input for node in graph.node):
            graph.initializer.remove(tensor)


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
    """Real text with `_REPLACED_FRACTION` of its pieces drawn from all texts, for a discriminator:
    the fraction of tokens that it rightly calls original or replaced."""
    rng = np.random.default_rng(0)
    encoded = source.tokenizer(
        list(texts[:_MAX_TEXTS]), truncation=True, max_length=source.max_positions
    )["input_ids"]
    originals = [np.array(ids, dtype=np.int64) for ids in encoded if len(ids) > 2]
    pieces, rows = np.concatenate([ids[1:-1] for ids in originals]), []
    for ids in originals:
        count = max(1, round(_REPLACED_FRACTION * (len(ids) - 2)))
        rows.append(ids.copy())
        rows[-1][1 + rng.choice(len(ids) - 2, count, replace=False)] = rng.choice(pieces, count)
    gold = [(a != b)[1:-1] for a, b in zip(rows, originals, strict=True)]
    counts = np.array([float(len(of)) for of in gold])

    def outcome(outputs: Iterable[Row]) -> Outcome:
        said = [of[LOGITS][1:-1].argmax(-1) for of in outputs]
        right = np.array([float((a == b).sum()) for a, b in zip(said, gold, strict=True)])
        scorers = {0: lambda drawn: float(right[drawn].sum() / counts[drawn].sum())}
        draws = resample_scores("replaced tokens", range(len(gold)), scorers)
        predictions = np.concatenate(said).astype(int).tolist()
        return Outcome(predictions, float(right.sum() / counts.sum()), draws)

    return Benchmark("replaced tokens", "accuracy", "tokens", list(map(_row, rows)), outcome)


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
