"""The paper's formulas token by token in double precision, for the tests of the objectives.

Of the code under test only the networks' logits are used, which other tests hold against
`transformers`. Source: ELECTRA (Clark et al. 2020), sections 2, 3.4 and appendix F.
"""

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from model.batch import Masked, Outputs
from model.data import Batch
from model.electra import ElectraPretrainer
from tests.model.conftest import (
    OBJECTIVES,
    discriminate,
    generate,
    predict,
    random_batch,
    random_model,
)

PAD, UNK, CLS, SEP, MASK = range(5)
Doubles = NDArray[np.float64]


def model_of(objective: str, **options: object) -> ElectraPretrainer:
    return random_model(objective=objective, **(OBJECTIVES[objective] | options))


def outputs_of(objective: str, **options: object) -> tuple[ElectraPretrainer, Masked, Outputs]:
    """A random model, a masked batch, and what the model makes of it."""
    model = model_of(objective, **options)
    masked = model.mask(random_batch(model))
    return model, masked, model(masked)


def softmax(row: Doubles) -> Doubles:
    exponents = np.exp(row - row.max())
    return exponents / exponents.sum()


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def cross_entropy(logit: float, label: float) -> float:
    """Of sigmoid(logit), the probability of 1, with a label that may lie between 0 and 1."""
    p = sigmoid(logit)
    return -label * math.log(p) - (1 - label) * math.log(1 - p)


def doubles(tensor: Tensor) -> Doubles:
    return tensor.detach().double().numpy()


def chosen_of(masked: Masked) -> list[tuple[int, int, int]]:
    """Row, slot and position of all that were chosen."""
    rows, slots = masked.positions.shape
    return [
        (b, n, int(masked.positions[b, n]))
        for b, n in product(range(rows), range(slots))
        if masked.weights[b, n]
    ]


def tokens_of(batch: Batch) -> list[tuple[int, int]]:
    """Row and position of all real tokens."""
    rows, length = batch.input_ids.shape
    places = product(range(rows), range(length))
    return [(b, t) for b, t in places if batch.input_ids[b, t] != PAD]


def corrupted_by_hand(masked: Masked, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """The original with the samples in it, and where that changed it."""
    corrupted = masked.batch.input_ids.clone()
    for b, n, t in chosen_of(masked):
        corrupted[b, t] = sampled[b, n]
    return corrupted, (corrupted != masked.batch.input_ids).long()


def generator_logits(model: ElectraPretrainer, masked: Masked) -> Doubles:
    types = masked.batch.token_type_ids
    return doubles(generate(model, masked.masked_ids, types, masked.positions))


def detection_logits(model: ElectraPretrainer, masked: Masked, ids: Tensor) -> Doubles:
    return doubles(discriminate(model, ids, masked.batch.token_type_ids))


def prediction_logits(
    model: ElectraPretrainer, masked: Masked, ids: Tensor, positions: Tensor
) -> Doubles:
    return doubles(predict(model, ids, masked.batch.token_type_ids, positions))


def mlm_by_hand(logits: Doubles, masked: Masked) -> float:
    """Mean of -log p(original) over the chosen positions of the whole batch."""
    chosen = chosen_of(masked)
    originals = masked.batch.input_ids
    return sum(-math.log(softmax(logits[b, n])[originals[b, t]]) for b, n, t in chosen) / len(
        chosen
    )


def mean_of(out: Outputs, name: str) -> float:
    return out.terms[name].mean(out.counts).item()
