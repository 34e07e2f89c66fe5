"""From which probability on a word is marked, and how often that is right.

The probability alone does not say it: replaced tokens are few in training, so a small discriminator
stays below one half even where it is right, and rare words are suspicious wherever they stand. The
threshold is therefore set on sentences of which no word was replaced, so that few words are above.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.inspect.verdict import Detector
from electrify.storage.files import read_toml
from electrify.system.outcome import UserError

MASK_FRACTION = 0.15  # of ELECTRA's training
MIN_WORDS = 100


@dataclass(frozen=True)
class Threshold:
    """Words above `probability` are marked."""

    probability: float
    source: str  # where the sentences come from, or who gave the number
    false_alarms: float | None = None  # fraction of their words above; None: the number was given
    found_fraction: float | None = None  # of words that the generator replaced; None: not measured

    def marks(self, probability: float) -> bool:
        return probability > self.probability

    def __str__(self) -> str:
        if self.false_alarms is None:
            return f"{self.probability:.3g} ({self.source})"
        text = f"{self.probability:.3f}, as {100 * self.false_alarms:.1f} % of the words of "
        text += f"{self.source} are"
        if self.found_fraction is None:
            return text
        return f"{text}, and {100 * self.found_fraction:.0f} % of those that the generator replaced"


def thresholds_on(
    detector: Detector, sentences: Sequence[str], source: str, levels: Sequence[float]
) -> list[Threshold]:
    """For each fraction of `levels` the probability that so many words of clean sentences exceed.

    Raises `ValueError` for fewer than `MIN_WORDS` words.
    """
    words = [word.probability for text in sentences for word in detector.read(text).words]
    if len(words) < MIN_WORDS:
        raise UserError(
            f"{source} has {len(words)} words, {MIN_WORDS} are needed to set a threshold: give "
            "more text"
        )
    clean = np.array(words)
    replaced = None
    if detector.generator is not None:
        replaced = np.array(
            [p for text in sentences for p in replaced_probabilities(detector, text)]
        )
    thresholds = []
    for level in levels:
        limit = float(np.quantile(clean, 1 - level, method="higher"))
        found = None if replaced is None else float(np.mean(replaced > limit))
        thresholds.append(Threshold(limit, source, float(np.mean(clean > limit)), found))
    return thresholds


@torch.no_grad()
def replaced_probabilities(detector: Detector, text: str) -> list[float]:
    """Probabilities of the words that the generator replaced in a text, as in training: 15 % of the
    tokens are hidden, and it samples others. The same text has the same draws."""
    draws = torch.Generator().manual_seed(0)
    probabilities = []
    for window in detector.read(text).windows:
        ids = window.ids.clone()
        words = [-1 if word is None else word for word in window.words]
        hidden = (torch.rand(len(words), generator=draws) < MASK_FRACTION) & (
            torch.tensor(words) >= 0
        )
        ids[0, hidden] = detector.source.tokenizer.mask_token_id
        chances = detector.generator(input_ids=ids).logits[0, hidden].softmax(-1)
        ids[0, hidden] = torch.multinomial(chances, 1, generator=draws)[:, 0]
        logits = detector.logits(ids)[0]
        changed = {words[i] for i in (ids != window.ids)[0].nonzero()[:, 0].tolist()}
        of_word = torch.tensor(words)
        probabilities += [float(logits[of_word == word].max().sigmoid()) for word in changed]
    return probabilities


def bundled_sentences() -> dict[str, list[str]]:
    """Sentences by the script that they are written in."""
    return read_toml(Path(__file__).with_name("sentences.toml"))


# syllables and jamo, and letters, in all forms that the tokenizer reads as one (as in detector.js)
_HANGUL = re.compile(r"[가-힣ㄱ-ㆎ\u1100-\u11ff\uffa1-\uffdc]")
_LATIN = re.compile("[A-Za-zＡ-Ｚａ-ｚ]")


def script_of(text: str) -> str:
    """Hangul where the text has a letter of it, else Latin where it has one without accents."""
    return "Hangul" if _HANGUL.search(text) else "Latin" if _LATIN.search(text) else ""
