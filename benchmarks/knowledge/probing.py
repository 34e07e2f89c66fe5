"""Linear probes of every layer, beside a control task of random labels (Hewitt and Liang 2019).

Selectivity is the accuracy of a probe less that on the control task. A probe that learns its
examples by heart is as good at both.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.knowledge.properties import MEAN, Example
from benchmarks.metrics.weighted import Floats
from benchmarks.proofreading.detectors import Pieces, batches, padded
from benchmarks.statistics.uncertainty import Estimate, estimate
from electrify.system.progress import Progress

_TEST_FRACTION = 1 / 3
_MAX_ITERATIONS = 2000
_INVERSE_PENALTY = 0.1


@dataclass(frozen=True)
class Probe:
    """What one layer tells of one property, over seeds."""

    name: str
    layer: int  # 0: embeddings
    num_examples: int
    num_labels: int
    accuracy: Estimate
    control: Estimate
    selectivity: Estimate


@torch.inference_mode()
def states_of(
    encoder: Any, pad: int, pieces: Mapping[str, Pieces], examples: Sequence[Example]
) -> Floats:
    """States of each example in each layer, (layers + 1, examples, H)."""
    by_text: dict[str, list[int]] = {}
    for number, example in enumerate(examples):
        by_text.setdefault(example.text, []).append(number)
    texts = list(by_text)
    found: list[Any] = [None] * len(examples)
    with Progress("states", len(texts), "sentences") as progress:
        for batch in batches([len(pieces[text].ids) for text in texts]):
            ids, mask = padded([pieces[texts[i]].ids for i in batch], pad, encoder.device)
            output = encoder(input_ids=ids, attention_mask=mask, output_hidden_states=True)
            hidden = torch.stack(output.hidden_states).cpu().numpy()  # (layers + 1, B, T, H)
            for row, i in enumerate(batch):
                is_word = np.flatnonzero(pieces[texts[i]].word_of >= 0)
                for number in by_text[texts[i]]:
                    place = examples[number].piece
                    state = hidden[:, row, is_word if place == MEAN else [place]]
                    found[number] = state.mean(axis=1)
            progress.update(len(batch))
    return np.stack(found, axis=1)


def probe_layers(
    name: str, states: Floats, examples: Sequence[Example], seeds: Sequence[int]
) -> list[Probe]:
    """Probes of one property; `states` are (layers + 1, examples, H)."""
    return [_probe(name, layer, of_layer, examples, seeds) for layer, of_layer in enumerate(states)]


def _probe(
    name: str, layer: int, states: Floats, examples: Sequence[Example], seeds: Sequence[int]
) -> Probe:
    labels = np.array([example.label for example in examples])
    accuracy, control = {}, {}
    for seed in seeds:
        is_test = _test_part(examples, seed)
        accuracy[seed] = _accuracy(states, labels, is_test)
        control[seed] = _accuracy(states, control_labels(examples, seed), is_test)
    selectivity = {seed: accuracy[seed] - control[seed] for seed in seeds}
    num_labels = len(set(labels))
    return Probe(
        name,
        layer,
        len(examples),
        num_labels,
        estimate(accuracy, None, (0.0, 1.0)),
        estimate(control, None, (0.0, 1.0)),
        estimate(selectivity, None),
    )


def control_labels(examples: Sequence[Example], seed: int) -> Any:
    """A label for each type, whatever its examples have: (examples,).

    Types come in random order. Each gets the label that has the fewest examples so far: labels
    stay about as frequent as in the task, so that no control task is easier by its most frequent
    label.
    """
    draw = np.random.default_rng(seed)
    counts = Counter(example.type for example in examples)
    filled = {str(label): 0 for label in draw.permutation(sorted({e.label for e in examples}))}
    labels = {}
    for kind in draw.permutation(sorted(counts)):
        labels[kind] = min(filled, key=filled.__getitem__)
        filled[labels[kind]] += counts[kind]
    return np.array([labels[example.type] for example in examples])


def _test_part(examples: Sequence[Example], seed: int) -> Any:
    """Which examples are asked, (examples,); groups stay together."""
    draw = np.random.default_rng(seed)
    is_test = {
        group: draw.random() < _TEST_FRACTION for group in sorted({e.group for e in examples})
    }
    return np.array([is_test[example.group] for example in examples])


def _accuracy(states: Floats, labels: Any, is_test: Any) -> float:
    """Of logistic regression on standardised states; of a single label in training, its share."""
    learnt = labels[~is_test]
    if len(set(learnt)) == 1:
        return float((labels[is_test] == learnt[0]).mean())
    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=_INVERSE_PENALTY, max_iter=_MAX_ITERATIONS)
    )
    model.fit(states[~is_test], learnt)
    return float(model.score(states[is_test], labels[is_test]))
