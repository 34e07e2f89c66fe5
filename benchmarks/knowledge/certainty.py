"""Where a discriminator is sure: by part of speech and by frequency of the piece.

Some pieces of each sentence are replaced by samples of a generator, as in pretraining. The same
positions are judged twice: with their own piece and with the sampled one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.encoder import ModelSource
from benchmarks.knowledge.properties import parts_of_pieces
from benchmarks.korean.morphemes import Sentence
from benchmarks.metrics.detection import auc
from benchmarks.metrics.weighted import Floats
from benchmarks.proofreading.detectors import (
    MASKED_LM,
    Pieces,
    batches,
    discriminator,
    load,
    padded,
)
from benchmarks.statistics.uncertainty import Estimate, estimate, resample_scores

_MASK_FRACTION = 0.15
# occurrences in the text, from the stated one on
_BANDS = {1: "1 to 9", 10: "10 to 99", 100: "100 to 999", 1000: "1,000 or more"}
_MIN_OF_GROUP = 50
ALL = "all"


@dataclass(frozen=True)
class Corrupted:
    """A sentence with replaced pieces; what stood at `places` was of `parts` and `bands`."""

    original: Pieces
    replaced: Pieces
    places: NDArray[np.int64]  # (n,) only where another piece stands
    parts: Sequence[str | None]
    bands: Sequence[str]


@dataclass(frozen=True)
class Certainty:
    """P(replaced) of the pieces of one group, and how well it tells the two sorts apart."""

    grouping: str  # "part of speech", "occurrences" or "all"
    group: str
    num_pieces: int
    of_originals: float  # mean P(replaced), which should be low
    of_replacements: float  # the same, which should be high
    auc: Estimate


def corrupt(
    sentences: Sequence[Sentence],
    pieces: Mapping[str, Pieces],
    generator: ModelSource | None,
    num_sentences: int,
    seed: int,
) -> list[Corrupted]:
    """Replace 15 % of the pieces by samples: of the generator, else of the text's own pieces.

    Pieces that come out as they were are no replacements.
    """
    draw = np.random.default_rng(seed)
    counts = Counter(int(i) for of in pieces.values() for i in of.ids[of.word_of >= 0])
    order = draw.permutation(len(sentences))[:num_sentences]
    chosen = [sentences[i] for i in order]
    cuts = [pieces[sentence.text] for sentence in chosen]
    places = [
        np.sort(draw.choice(words, max(1, round(_MASK_FRACTION * len(words))), replace=False))
        for words in (np.flatnonzero(cut.word_of >= 0) for cut in cuts)
    ]
    if generator is None:
        everywhere = np.concatenate([cut.ids[cut.word_of >= 0] for cut in cuts])
        sampled = [draw.choice(everywhere, len(of)) for of in places]
    else:
        sampled = _sampled(generator, cuts, places, seed)
    found = []
    for sentence, cut, of, new in zip(chosen, cuts, places, sampled, strict=True):
        is_other = cut.ids[of] != new
        ids = cut.ids.copy()
        ids[of] = new
        parts = parts_of_pieces(sentence, cut)
        kept = of[is_other]
        bands = [_band(counts[int(i)]) for i in cut.ids[kept]]
        named = [parts[place] for place in kept]
        found.append(Corrupted(cut, replace(cut, ids=ids), kept, named, bands))
    return [corrupted for corrupted in found if len(corrupted.places)]


@torch.inference_mode()
def _sampled(
    source: ModelSource, cuts: Sequence[Pieces], places: Sequence[NDArray[np.int64]], seed: int
) -> list[NDArray[np.int64]]:
    """A sample of the generator's distribution at each place, all of them masked at once."""
    network = load(source, MASKED_LM)
    randomness = torch.Generator().manual_seed(seed)
    found: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(cuts)
    for batch in batches([len(cut.ids) for cut in cuts]):
        rows = [cuts[i].ids for i in batch]
        ids, mask = padded(rows, source.tokenizer.pad_token_id, network.device)
        for row, i in enumerate(batch):
            ids[row, places[i]] = source.tokenizer.mask_token_id
        logits = network(input_ids=ids, attention_mask=mask).logits
        for row, i in enumerate(batch):
            chances = logits[row, places[i]].softmax(dim=-1).cpu()
            found[i] = torch.multinomial(chances, 1, generator=randomness)[:, 0].numpy()
    return found


def certainty(source: ModelSource, corrupted: Sequence[Corrupted]) -> list[Certainty]:
    """What the discriminator says, of all pieces and of each group of enough of them."""
    score = discriminator(source)
    originals, replacements = (
        _at_places(score([getattr(c, side) for c in corrupted]), corrupted)
        for side in ("original", "replaced")
    )
    owners = np.repeat(np.arange(len(corrupted)), [len(c.places) for c in corrupted])
    return [
        _of_group(grouping, group, originals[is_in], replacements[is_in], owners[is_in])
        for grouping, group, is_in in _groups(corrupted)
    ]


def _groups(corrupted: Sequence[Corrupted]) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    parts = [part for c in corrupted for part in c.parts]
    bands = [band for c in corrupted for band in c.bands]
    yield ALL, ALL, np.ones(len(parts), dtype=bool)
    for grouping, names in (("part of speech", parts), ("occurrences", bands)):
        counts = Counter(name for name in names if name)
        groups = [group for group, count in counts.most_common() if count >= _MIN_OF_GROUP]
        if grouping == "occurrences":
            groups.sort(key=list(_BANDS.values()).index)
        for group in groups:
            yield grouping, group, np.array([name == group for name in names])


def _of_group(
    grouping: str,
    group: str,
    originals: Floats,
    replacements: Floats,
    owners: NDArray[np.int64],
) -> Certainty:
    """Logits of the group's places, and the sentence of each."""
    names, owners = np.unique(owners, return_inverse=True)
    score = auc(replacements, originals, owners, owners)
    value = float(score(np.ones((1, len(names))))[0])
    ids = f"{group} {len(names)}"
    interval = estimate({0: value}, resample_scores(ids, len(names), {0: score}), (0.0, 1.0))
    low, high = (float((1 / (1 + np.exp(-logits))).mean()) for logits in (originals, replacements))
    return Certainty(grouping, group, len(originals), low, high, interval)


def _at_places(scores: Sequence[Floats], corrupted: Sequence[Corrupted]) -> Floats:
    return np.concatenate([s[c.places] for s, c in zip(scores, corrupted, strict=True)])


def _band(count: int) -> str:
    return _BANDS[max(low for low in _BANDS if count >= low)]
