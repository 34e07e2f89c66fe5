"""Which words a verdict rests on: layer integrated gradients (Sundararajan et al. 2017) by Captum.

The path leads from a text whose every piece is [MASK] to the text itself, at the layer of the token
embeddings. The shares of all pieces sum to the difference of the logit between the two; what the
sum misses is the completeness error. Attention weights are not used: they are no explanation.
"""

from collections import defaultdict
from dataclasses import dataclass

import torch
from captum.attr import LayerIntegratedGradients

from benchmarks.inspect.verdict import Detector, Piece, Verdict

MAX_RELATIVE_ERROR = 0.01
_NUM_STEPS = (32, 128, 512)
_ROWS_AT_ONCE = 32


@dataclass(frozen=True)
class Attribution:
    """What each word adds to the logit of a piece; words that the window does not show are left
    out. Without the error, the shares sum to `difference`."""

    by_word: dict[int, float]
    difference: float  # of the logit, the text against [MASK] everywhere
    completeness_error: float  # in logits, never negative
    num_steps: int

    def largest(self, count: int, without: int) -> list[tuple[int, float]]:
        """The (word, share) pairs of largest effect, of either sign, one word left out."""
        others = [pair for pair in self.by_word.items() if pair[0] != without]
        return sorted(others, key=lambda pair: -abs(pair[1]))[:count]


def attribute(detector: Detector, verdict: Verdict, piece: Piece) -> Attribution:
    """What the logit of `piece` owes to each word of its window.

    Steps are added until the completeness error is below 1 % of the difference, 512 at most.
    """
    window = verdict.windows[piece.window]
    hidden = [position for position, word in enumerate(window.words) if word is not None]
    baseline = window.ids.clone()
    baseline[0, hidden] = detector.source.tokenizer.mask_token_id
    network = detector.discriminator
    gradients = LayerIntegratedGradients(
        lambda rows: network(input_ids=rows).logits[:, piece.position],
        network.get_input_embeddings(),
    )
    with torch.no_grad():
        logits = detector.logits(torch.cat([window.ids, baseline]))[:, piece.position].double()
    difference = float(logits[0] - logits[1])
    for num_steps in _NUM_STEPS:
        shares = gradients.attribute(
            window.ids, baselines=baseline, n_steps=num_steps, internal_batch_size=_ROWS_AT_ONCE
        )
        by_position = shares[0].sum(-1).double()
        error = abs(float(by_position.sum()) - difference)
        if error <= MAX_RELATIVE_ERROR * abs(difference):
            break
    by_word: dict[int, float] = defaultdict(float)
    for share, word in zip(by_position.tolist(), window.words, strict=True):
        if word is not None:
            by_word[word] += share
    return Attribution(dict(by_word), difference, error, num_steps)
