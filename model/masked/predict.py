"""How well a run's networks name hidden tokens of held-out text (`electrify predict-masked`).

The generator, and an mlm run's main network, predict tokens as they were trained to. A
discriminator is used as a masked language model by inversion of its training
(hidden_tokens.py), over the generator's likeliest tokens. Every predictor sees the same hidden
tokens, so gains over the generator are paired.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from electrify.config.run import RunConfig
from electrify.stage.folder import write_json, write_text
from electrify.stage.masked_report import (
    SEQUENCES,
    Context,
    ContextFigures,
    Estimate,
    Example,
    Figure,
    Gain,
    Group,
    Guess,
    MaskedReport,
    Predictor,
    SequenceSums,
    sequence_line,
)
from electrify.stage.plan import checkpoints, masked_stage, output_dir
from electrify.stage.report_file import REPORT
from electrify.stage.run import run_stage
from electrify.system.memory import keep_freed_memory
from electrify.system.progress import Progress, log
from electrify.system.resampling import Floats, outcome, ratio_intervals
from model.batch import Batch
from model.devices.device import resolve_device
from model.electra import ElectraPretrainer
from model.masked.hidden_tokens import Guesses, HiddenTokens, check_invertible, guess, hide
from model.pretrain import make_model
from model.train.checkpoint import (
    DAMAGES,
    check_identity,
    load_model,
    newest,
    read_state,
    run_identity,
)
from model.train.data import SequenceData, Split, noise_key, open_shards

_SEED = 20_030_555  # of the resampling alone
_Key = tuple[Predictor, Figure]
_E = TypeVar("_E", bound=Estimate)


def context_figures(sequences: Sequence[SequenceSums], context: Context) -> ContextFigures:
    """Of all sequences, and of each language where there are several."""
    languages = sorted({sequence.language for sequence in sequences})
    by_language = {
        language: _group([s for s in sequences if s.language == language], context)
        for language in languages
        if len(languages) > 1
    }
    return ContextFigures(all=_group(sequences, context), languages=by_language)


def _group(sequences: Sequence[SequenceSums], context: Context) -> Group:
    counts = np.array([sequence.num_positions for sequence in sequences], dtype=np.float64)
    keys: list[_Key] = [
        (predictor, figure)
        for predictor, figures in sequences[0].sums[context].items()
        for figure in figures
    ]
    columns = {
        (predictor, figure): np.array([s.sums[context][predictor][figure] for s in sequences])
        for predictor, figure in keys
    }
    compared = [key for key in keys if key[0] != "generator" and ("generator", key[1]) in columns]
    found = [s.found[context] for s in sequences if s.found is not None]
    table = [columns[key] for key in keys]
    table += [columns[key] - columns["generator", key[1]] for key in compared]
    table += [np.array(found)] if found else []
    ratios, bounds = ratio_intervals(np.stack(table, axis=1), counts, _SEED)
    estimates = [_estimate(*row) for row in zip(ratios, bounds, strict=True)]
    coverage = _level(estimates.pop()) if found else None
    levels = {key: _level(estimate) for key, estimate in zip(keys, estimates, strict=False)}
    gains = zip(compared, estimates[len(keys) :], strict=True)
    return Group(
        num_sequences=len(sequences),
        num_positions=int(counts.sum()),
        coverage=coverage,
        predictors=_nested(levels),
        gains=_nested({key: _gain(estimate) for key, estimate in gains}),
    )


def _estimate(value: float, bounds: Floats) -> Estimate:
    low, high = (None if math.isnan(bound) else float(bound) for bound in bounds)
    return Estimate(value=float(value), low=low, high=high)


def _level(estimate: Estimate) -> Estimate:
    """Without an interval where all sequences are alike, as where nothing was named at all: from
    no spread, resampling would make a certainty."""
    if estimate.low == estimate.high:
        return Estimate(value=estimate.value, low=None, high=None)
    return estimate


def _gain(estimate: Estimate) -> Gain:
    return Gain(**estimate.model_dump(), outcome=outcome(estimate.low, estimate.high))


def _nested(flat: dict[_Key, _E]) -> dict[Predictor, dict[Figure, _E]]:
    nested: dict[Predictor, dict[Figure, _E]] = {}
    for (predictor, figure), estimate in flat.items():
        nested.setdefault(predictor, {})[figure] = estimate
    return nested


_KEY_STEP = 2**31 + 2**29  # draws of no step, of no validation
_CHUNK = 16  # sequences whose draws are made together
_NUM_EXAMPLES, _NEIGHBOURS = 8, 12
_SPLIT: Split = "valid"


def predict_masked(config: RunConfig, step: int | None = None, overwrite: bool = False) -> Path:
    """Write `masked/` of the last checkpoint, or `masked-checkpoint-<step>/`; the folder.

    `ValueError` for a run that cannot be measured, a step without a checkpoint, a damaged one.
    """
    check_invertible(config.pretrain)
    checkpoint = _checkpoint(config, step)
    stage = masked_stage(config, checkpoint if step is not None else None)
    run_stage(stage, lambda folder: _measure(config, checkpoint, folder), overwrite)
    return stage.folder


def _checkpoint(config: RunConfig, step: int | None) -> Path:
    run = output_dir(config)
    if step is None:
        return newest(run / "pretrain")
    places = [run / "pretrain", run / "pretrain.partial"]
    present = [path for place in places for path in checkpoints(place)]
    for path in present:
        if path.name == f"checkpoint-{step}":
            return path
    steps = ", ".join(path.name.removeprefix("checkpoint-") for path in present) or "none"
    raise ValueError(f"--checkpoint {step}: there is no such checkpoint in {run} (steps: {steps})")


def _measure(config: RunConfig, checkpoint: Path, folder: Path) -> Mapping[str, Any]:
    options, run = config.masked, output_dir(config)
    model, data, step = _load(config, checkpoint)
    total = min(options.num_sequences, data.num_sequences)
    pieces = _pieces(run / "vocab" / "vocab.txt")
    digest = hashlib.sha256()
    sequences: list[SequenceSums] = []
    examples: list[Example] = []
    with Progress("predict-masked", total, "sequences") as progress:
        for batch in _batches(config, data, total):
            found: dict[Context, tuple[HiddenTokens, Guesses]] = {}
            placed = batch.to(next(model.parameters()).device)
            for context, hidden in hide(model, placed, options.positions_per_sequence).items():
                if len(hidden):
                    made = guess(model, hidden, options.num_candidates, options.batch_size)
                    found[context] = hidden, made
            if found:
                hidden, made = found["one at a time"]
                for part in (batch.input_ids, hidden.sequences, hidden.positions):
                    digest.update(part.cpu().contiguous().numpy().tobytes())
                sequences += _sequence_sums(found, batch, data.languages)
                examples += _examples(hidden, made, batch, data.languages, pieces)
            progress.update(len(batch.input_ids))
    if not sequences:
        raise ValueError(f"no position was chosen in {total} sequences: raise masked.num_sequences")
    main: Predictor = "main" if config.pretrain.has_language_head else "inversion"
    report = MaskedReport(
        objective=config.pretrain.objective,
        step=step,
        seed=config.seed,
        split=_SPLIT,
        sequence_length=config.encode.sequence_length,
        mask_fraction=config.pretrain.mask_fraction,
        num_candidates=min(options.num_candidates, data.vocab_size) if main != "main" else None,
        main=main,
        positions_sha256=digest.hexdigest(),
        contexts={c: context_figures(sequences, c) for c in sequences[0].sums},
        examples=_spread(examples),
    )
    write_json(folder / REPORT, report.model_dump(mode="json"))
    write_text(folder / SEQUENCES, "".join(sequence_line(s) + "\n" for s in sequences))
    _log(report)
    return {"checkpoint": checkpoint.name, "sequences": len(sequences)}


def _load(config: RunConfig, checkpoint: Path) -> tuple[ElectraPretrainer, SequenceData, int]:
    """The model of a checkpoint of this very run, and the run's held-out text."""
    try:
        state = read_state(checkpoint)
    except DAMAGES as error:
        raise ValueError(f"{checkpoint} is damaged ({error}); name another step") from None
    check_identity(state["identity"], run_identity(config), str(checkpoint))
    shards = open_shards(output_dir(config) / "shards", [_SPLIT])
    data = SequenceData.from_config(config, _SPLIT, shards=shards)
    model = make_model(config, shards, data)
    load_model(checkpoint, model)
    device = resolve_device(config.pretrain.device)
    if device.type == "xla":  # which would compile each odd batch anew
        device = torch.device("cpu")
    if device.type == "cpu":
        keep_freed_memory()
    return model.to(device).eval(), data, int(state["step"])


def _batches(config: RunConfig, data: SequenceData, total: int) -> Iterator[Batch]:
    for start in range(0, total, _CHUNK):
        key = noise_key(config.seed, _KEY_STEP + start // _CHUNK)
        # all draws of a chunk, whatever the number of sequences: those of fewer begin alike
        yield data.batch(start, _CHUNK, key).rows(slice(0, total - start))


def _sequence_sums(
    found: Mapping[Context, tuple[HiddenTokens, Guesses]],
    batch: Batch,
    languages: Sequence[str],
) -> list[SequenceSums]:
    """Of each sequence that has hidden tokens."""
    rows = next(iter(found.values()))[0].sequences.cpu()
    size = len(batch.input_ids)
    counts = rows.bincount(minlength=size).tolist()

    def summed(values: Tensor) -> list[float]:
        sums = torch.zeros(size, dtype=torch.float64).index_add_(0, rows, values.cpu().double())
        return [float(value) for value in sums]

    sums = {
        context: {
            name: {figure: summed(values) for figure, values in figures.items()}
            for name, figures in made.figures.items()
        }
        for context, (_, made) in found.items()
    }
    candidates = {
        context: summed(made.found)
        for context, (_, made) in found.items()
        if made.found is not None
    }
    return [
        SequenceSums(
            language=languages[int(batch.languages[row])],
            num_positions=counts[row],
            sums={
                context: {name: {f: v[row] for f, v in of.items()} for name, of in named.items()}
                for context, named in sums.items()
            },
            found={c: values[row] for c, values in candidates.items()} or None,
        )
        for row in range(size)
        if counts[row]
    ]


def _pieces(path: Path) -> list[str] | None:
    """The vocabulary's pieces by id; None where the run has no vocabulary beside its shards."""
    return path.read_text(encoding="utf-8").split("\n") if path.is_file() else None


def _examples(
    hidden: HiddenTokens,
    made: Guesses,
    batch: Batch,
    languages: Sequence[str],
    pieces: Sequence[str] | None,
) -> list[Example]:
    """The first hidden token of each sequence, with its neighbours."""
    if pieces is None:
        return []
    rows = hidden.sequences.tolist()
    examples = []
    for number in (rows.index(row) for row in dict.fromkeys(rows)):
        ids = batch.input_ids[rows[number]].tolist()
        at = int(hidden.positions[number])
        examples.append(
            Example(
                language=languages[int(batch.languages[rows[number]])],
                before=_text(ids[max(0, at - _NEIGHBOURS) : at], pieces),
                hidden=pieces[ids[at]],
                after=_text(ids[at + 1 : at + 1 + _NEIGHBOURS], pieces),
                guesses={
                    name: [
                        Guess(token=pieces[token], probability=round(probability, 6))
                        for token, probability in zip(
                            tokens[number].tolist(), values[number].tolist(), strict=True
                        )
                    ]
                    for name, (tokens, values) in made.likeliest.items()
                },
            )
        )
    return examples


def _text(ids: Sequence[int], pieces: Sequence[str]) -> str:
    """Pieces as words, without padding."""
    words = " ".join(pieces[i] for i in ids if pieces[i] != "[PAD]")
    return words.replace(" ##", "")


def _spread(examples: Sequence[Example]) -> list[Example]:
    """The first of each language in turn, so that each is seen."""
    by_language: dict[str, list[Example]] = {}
    for example in examples:
        by_language.setdefault(example.language, []).append(example)
    share = max(1, _NUM_EXAMPLES // max(1, len(by_language)))
    return [example for of in by_language.values() for example in of[:share]][:_NUM_EXAMPLES]


def _log(report: MaskedReport) -> None:
    for context, figures in report.contexts.items():
        shares = (
            f"{name} {_in_words(of['accuracy'])}" for name, of in figures.all.predictors.items()
        )
        log(f"predict-masked: {context}, accuracy: {', '.join(shares)}")
    number = figures.all.num_positions
    log(
        f"predict-masked: 95 % intervals, of {number:,} hidden tokens; a larger "
        "masked.num_sequences makes them narrower"
    )


def _in_words(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
