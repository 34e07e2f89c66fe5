"""What the main network's states tell apart, seen before anything is fine-tuned.

A network whose states hardly differ from text to text has nothing to give to a task on sentences,
whatever its loss. Two looks at it: the geometry of the last layer's states on held-out text, and a
frozen probe, which is logistic regression on the mean state of labelled texts, layer by layer.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electrify.config.pretrain import ProbeConfig
from electrify.storage.files import parse_json
from electrify.system.outcome import UserError
from vocab.tokenizer import load_tokenizer

Floats = NDArray[np.float64]
# token ids (B, L) and where tokens are (B, L) bool, to the states (B, L, H) of each layer
States = Callable[[Tensor, Tensor], Sequence[Tensor]]

PROBE_BATCH_ROWS = 64
# of scikit-learn's logistic regression on standardised states: the best of .01, .1 and 1 for
# encoders of 2 to 4 layers on topics and on hate speech, from 1,000 to 3,000 texts
PROBE_C = 0.1
_SEED = 0x9806E  # of the halves of the probe's rows, the same in every run


def state_figures(batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Of states (B, L, H) and the number (B, L) of the text that each belongs to, -1 for none:

    * `mean_state_share`: the energy of the mean state, as a share of the states' mean energy. At 1
      all tokens have the same state;
    * `pooled_variance`: how far the mean states of texts are from each other, as a share of their
      energy;
    * `participation_ratio`: (sum of eigenvalues)^2 / sum of their squares of the covariance of the
      mean states of texts: in how many directions they differ (Gao et al. 2017). At most H.
    """
    total: Floats = np.zeros(1)
    energy, num_tokens, pooled = 0.0, 0, []
    for states, texts in batches:
        for row, of in zip(states.double().cpu().numpy(), texts.cpu().numpy(), strict=True):
            row, of = row[of >= 0], of[of >= 0]
            total = total + row.sum(0)
            energy += float((row**2).sum())
            num_tokens += len(row)
            pooled += [row[of == number].mean(0) for number in np.unique(of)]
    if not energy:
        return {}
    means = np.array(pooled)
    centred = means - means.mean(0)
    eigenvalues = np.linalg.eigvalsh(centred.T @ centred).clip(min=0)
    return {
        "mean_state_share": float(((total / num_tokens) ** 2).sum() / (energy / num_tokens)),
        "pooled_variance": float((centred**2).sum() / (means**2).sum()),
        "participation_ratio": float(eigenvalues.sum() ** 2 / max((eigenvalues**2).sum(), 1e-30)),
    }


class Probe:
    """Labelled texts, of which one half is learnt from and the other one scored.

    `ValueError` if the file cannot be read as such, or without scikit-learn.
    """

    def __init__(self, options: ProbeConfig, vocab: Path, max_length: int) -> None:
        try:
            import sklearn  # noqa: F401
        except ImportError:
            raise UserError(
                "pretrain.probe needs scikit-learn; install it (extra [benchmarks]) or leave "
                "pretrain.probe out"
            ) from None
        rows = read_labelled(options)
        order = np.random.default_rng(_SEED).permutation(len(rows))[: options.max_examples]
        texts, labels = zip(*(rows[i] for i in order), strict=True)
        tokenizer = load_tokenizer(vocab)
        tokenizer.enable_truncation(max_length)
        self._ids = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
        self._labels = np.array(labels)
        half = len(order) // 2
        if len(set(labels[:half])) < 2:
            raise UserError(
                f"{options.path}: the {half} rows that pretrain.probe learns from have one label "
                f"only, {labels[0]!r}; give a file of shuffled rows with two labels or more"
            )

    def figures(self, states: States) -> dict[str, float]:
        """Macro-F1 on the second half: `probe_layer_0` of what enters the first layer, then of each
        layer; `probe_f1` of the best one."""
        pooled: list[list[Floats]] = []
        order = np.argsort([len(ids) for ids in self._ids], kind="stable")
        for ids, tokens in self._batches(order):
            layers = states(ids, tokens)
            pooled.append([pooled_states(layer, tokens) for layer in layers])
        half, scores = len(order) // 2, {}
        for number, parts in enumerate(zip(*pooled, strict=True)):
            vectors = np.empty((len(order), parts[0].shape[1]))
            vectors[order] = np.concatenate(parts)
            scores[f"probe_layer_{number}"] = probe_score(
                vectors[:half], self._labels[:half], vectors[half:], self._labels[half:]
            )
        return {"probe_f1": max(scores.values()), **scores}

    def _batches(self, order: NDArray[np.int64]) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, len(order), PROBE_BATCH_ROWS):
            rows = [self._ids[i] for i in order[start : start + PROBE_BATCH_ROWS]]
            ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
            tokens = torch.zeros(ids.shape, dtype=torch.bool)
            for number, row in enumerate(rows):
                ids[number, : len(row)] = torch.tensor(row)
                tokens[number, : len(row)] = True
            yield ids, tokens


def pooled_states(states: Tensor, tokens: Tensor) -> Floats:
    """The mean state of each row's tokens: (B, L, H) to (B, H)."""
    weights = tokens[:, :, None].double()
    means: Floats = ((states.double().cpu() * weights).sum(1) / weights.sum(1)).numpy()
    return means


def probe_score(
    learnt: Floats, labels: NDArray[np.str_], scored: Floats, expected: NDArray[np.str_]
) -> float:
    """Macro-F1 of logistic regression on standardised features (N, H)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=PROBE_C, max_iter=200))
    predicted = model.fit(learnt, labels).predict(scored)
    return float(f1_score(expected, predicted, average="macro"))


def read_labelled(options: ProbeConfig) -> list[tuple[str, str]]:
    """Texts with their labels, from a JSON list, JSON lines, or TSV or CSV with a header.

    `ValueError` if a row lacks a field, or if there are too few rows.
    """
    path = Path(options.path)
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"pretrain.probe.path: {path} cannot be read: {error}") from None
    examples = []
    for number, row in enumerate(_rows(path, content), 1):
        values = row.get(options.text), row.get(options.label)
        if None in values:
            lacking = options.text if values[0] is None else options.label
            raise UserError(
                f"{path}, row {number}: no field {lacking!r}; it has {', '.join(map(repr, row))}. "
                "Name the fields in pretrain.probe.text and pretrain.probe.label"
            )
        examples.append((str(values[0]), str(values[1])))
    if len(examples) < 20:
        raise UserError(f"{path}: pretrain.probe needs 20 rows or more, here are {len(examples)}")
    return examples


def _rows(path: Path, content: str) -> list[dict[str, object]]:
    where = f"pretrain.probe.path: {path}"
    if path.suffix == ".json":
        rows = parse_json(content, where)
    elif path.suffix == ".jsonl":
        rows = [parse_json(line, where) for line in content.split("\n") if line.strip()]
    elif path.suffix in (".tsv", ".csv"):
        form: Any = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {}
        try:
            rows = list(csv.DictReader(StringIO(content), **form))
        except csv.Error as error:
            raise UserError(f"{where}: {error}") from None
    else:
        raise UserError(f"{where}: its name must end in .json, .jsonl, .tsv or .csv")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(f"{where} is no list of rows with named fields")
    return rows
