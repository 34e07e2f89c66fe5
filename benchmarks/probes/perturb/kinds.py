"""Every kind of perturbation by name, and a row's texts perturbed by it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.probes.perturb import english, korean, noise
from benchmarks.probes.perturb.places import Perturb
from electrify.storage.files import read_toml

_ROOMS = (korean, english, noise)
_HANGUL_SHARE = 0.2  # of the letters of a Korean text, at least


@dataclass(frozen=True)
class Kind:
    """One kind of perturbation; `kinds.toml` explains the fields."""

    name: str
    languages: tuple[str, ...]
    strengths: tuple[float, ...]
    places: str
    keeps_label: str
    read: Mapping[str, Any]  # empty where nothing was read

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


def _read_kinds() -> dict[str, Kind]:
    return {
        name: Kind(
            name,
            tuple(given["languages"]),
            tuple(given["strengths"]),
            given["places"],
            given["keeps_label"],
            given.get("read", {}),
        )
        for name, given in read_toml(Path(__file__).with_suffix(".toml")).items()
    }


KINDS: Mapping[str, Kind] = _read_kinds()


def language_of(text: str) -> str:
    """ "ko" of a text in which Hangul is a fifth of the letters or more, else "en"."""
    letters = [character for character in text if character.isalpha()]
    num_hangul = sum("가" <= character <= "힣" for character in letters)
    return "ko" if num_hangul >= _HANGUL_SHARE * max(1, len(letters)) else "en"
