"""Every kind of perturbation by name, and a row's texts perturbed by it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from benchmarks.probes.perturb import english, korean, noise
from benchmarks.probes.perturb.places import Perturb
from electrify.storage.files import read_toml

_ROOMS = (korean, english, noise)
_HANGUL_SHARE = 0.2  # of the letters of a Korean text, at least


class Kind(BaseModel):
    """One kind of perturbation; `kinds.toml` explains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    languages: tuple[str, ...]
    strengths: tuple[float, ...]
    places: str
    keeps_label: str
    read: dict[str, Any] = {}  # empty where nothing was read

    @property
    def function(self) -> Perturb:
        """That of the kind's name."""
        name = self.name.replace("-", "_")
        found: Perturb = next(getattr(room, name) for room in _ROOMS if hasattr(room, name))
        return found

    def perturb(self, texts: tuple[str, ...], strength: float, identity: str) -> tuple[str, ...]:
        """The texts of a row; the same for the same `identity`, whatever the other rows are."""
        found = []
        for number, text in enumerate(texts):
            seed = hashlib.sha256(f"{self.name}\n{identity}\n{number}".encode()).digest()
            rng = np.random.default_rng(int.from_bytes(seed[:8], "big"))
            found.append(self.function(text, strength, rng))
        return tuple(found)


KINDS: Mapping[str, Kind] = {
    name: Kind(name=name, **given)
    for name, given in read_toml(Path(__file__).with_suffix(".toml")).items()
}


def language_of(text: str) -> str:
    """ "ko" of a text in which Hangul is a fifth of the letters or more, else "en"."""
    letters = [character for character in text if character.isalpha()]
    num_hangul = sum("가" <= character <= "힣" for character in letters)
    return "ko" if num_hangul >= _HANGUL_SHARE * max(1, len(letters)) else "en"
