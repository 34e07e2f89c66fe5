"""How much of each language is taken, of words for a vocabulary and of sequences for a batch."""

from collections.abc import Mapping


def sampling_shares(sizes: Mapping[str, float], temperature: float) -> dict[str, float]:
    """The share of each language in a mixture, p ~ size^temperature: 1 as they are, 0 all alike.

    Empty languages get nothing. Shares sum to one.
    """
    largest = max(sizes.values(), default=0)
    powers = {
        name: (size / largest) ** temperature if size else 0.0 for name, size in sizes.items()
    }
    total = sum(powers.values())
    return {name: power / total for name, power in powers.items()} if total else dict(powers)
