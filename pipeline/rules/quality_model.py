"""Quality as a score: logistic regression on hashed runs of characters, from good and bad texts.

A text is read in small letters, digits as 0, white space as one blank. Its runs of two to four
characters are hashed into 2^15 classes; the regression reads the root of the share of each.
"""

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from electrify.system.outcome import UserError, first_line
from pipeline.rules.characters import code_points

_FORMAT = "electrify quality model 1"
_SIZES = (2, 3, 4)
_BITS = 15
_ONE = 2**20
_MAX_CHARACTERS = 20_000  # from the start of a text
_BLANKS, _DIGITS = re.compile(r"\s+"), re.compile(r"\d")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class QualityModel:
    """Weights of the classes in eight bits, the unit of a weight, and the intercept."""

    weights: NDArray[np.int8]  # (2^15,)
    unit: float
    intercept: float

    def score(self, text: str) -> float:
        """The probability that a text is one of the good ones, to six digits.

        The sum is one of whole numbers, so that it is the same on every processor.
        """
        classes, shares = run_shares(text)
        total = int(shares @ self.weights[classes].astype(np.int64))
        logit = self.unit * total / _ONE + self.intercept
        return round(1.0 / (1.0 + math.exp(-max(-500.0, logit))), 6)

    def to_json(self, about: Mapping[str, object]) -> str:
        """The file of the model, with what is known of its making."""
        coded = base64.b85encode(self.weights.tobytes()).decode()
        fields = {"unit": self.unit, "intercept": self.intercept, "weights": coded}
        return json.dumps({"format": _FORMAT, **about, **fields}, ensure_ascii=False, indent=1)


def run_shares(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The classes of the runs of a text, and the root of the share of each in units of 2^-20."""
    text = _DIGITS.sub("0", _BLANKS.sub(" ", text[:_MAX_CHARACTERS].lower()))
    points = code_points(text).astype(np.uint64)
    hashed = []
    for size in _SIZES:
        num_runs = max(0, len(points) - size + 1)
        runs = np.full(num_runs, size, dtype=np.uint64)
        for offset in range(size):
            runs = (runs + points[offset : offset + num_runs]) * _FACTOR
        hashed.append(runs >> np.uint64(64 - _BITS))
    classes, counts = np.unique(np.concatenate(hashed).astype(np.int64), return_counts=True)
    shares: NDArray[np.float64] = counts / max(1, counts.sum())
    return classes, np.round(np.sqrt(shares) * _ONE).astype(np.int64)


def read_text(path: str) -> str:
    """The file of a model, as `train-quality` wrote it; `UserError` for any other file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        parse(text)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"clean.quality_model = {path!r} is no file of `electrify train-quality` "
            f"({first_line(error)}); relative paths start at {Path.cwd()}"
        ) from None
    return text


@cache
def parse(text: str) -> QualityModel:
    """The model in a file's text; `ValueError` or `KeyError` for any other text."""
    fields = json.loads(text)
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        raise ValueError(f"it does not say {_FORMAT!r}")
    eighths = np.frombuffer(base64.b85decode(fields["weights"]), dtype=np.int8)
    if len(eighths) != 2**_BITS:
        raise ValueError(f"{len(eighths):,} weights, not {2**_BITS:,}")
    return QualityModel(eighths, float(fields["unit"]), float(fields["intercept"]))


def fit(good: Sequence[str], bad: Sequence[str], strength: float) -> QualityModel:
    """The regression of these texts; `strength` is the inverse of the penalty on the weights."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    runs = [run_shares(text) for text in (*good, *bad)]
    ends = np.cumsum([0, *(len(classes) for classes, _ in runs)])
    classes, shares = (np.concatenate(column) for column in zip(*runs, strict=True))
    rows = csr_matrix((shares / _ONE, classes, ends), shape=(len(runs), 2**_BITS))
    labels = np.repeat([1, 0], [len(good), len(bad)])
    model = LogisticRegression(C=strength, class_weight="balanced", max_iter=1000)
    model.fit(rows, labels)
    unit = float(np.abs(model.coef_).max()) / 127 or 1.0
    weights = np.round(model.coef_[0] / unit).astype(np.int8)
    return QualityModel(weights, unit, float(model.intercept_[0]))
