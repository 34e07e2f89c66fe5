"""What a rule did to a text, as a reader sees it: a window round the first difference."""

CONTEXT_CHARACTERS = 30  # shown before the first difference
WINDOW_CHARACTERS = 90  # shown of each side in all
BLANKED_CHARACTERS = 2  # shown of personal data
_SHOWN = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\xa0": "␣"}


def excerpt(before: str, after: str) -> str:
    """`before → after` round the first place where they differ; what is invisible has an escape."""
    first = max(0, _num_common(before, after) - CONTEXT_CHARACTERS)
    return f"{_window(before, first)}  →  {_window(after, first)}"


def _num_common(one: str, other: str) -> int:
    """Characters that both begin with, by halves: comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def mask_excerpt(before: str, after: str, mask: str) -> str:
    """`before → after` round the first `mask` ("<email>"), though others may stand before it.

    A report has many readers: of what was masked it shows the first characters, and no more.
    """
    place = after.find(mask)
    start = max(0, place - CONTEXT_CHARACTERS)
    words = after[start:place].rpartition(">")[2]  # behind the mask before it
    first = max(0, before.find(words)) + len(words)
    blanked = f"{before[first : first + BLANKED_CHARACTERS]}***"
    hidden = f"{after[:place]}{blanked}{after[place + len(mask) :]}"
    return f"{_window(hidden, place - len(words))}  →  {_window(after, place - len(words))}"


def _window(text: str, first: int) -> str:
    shown = "".join(map(_visible, text[first : first + WINDOW_CHARACTERS]))
    opening = "…" if first else ""
    closing = "…" if first + WINDOW_CHARACTERS < len(text) else ""
    return f"{opening}{shown}{closing}"


def _visible(character: str) -> str:
    if character in _SHOWN:
        return _SHOWN[character]
    if character == " " or character.isprintable():
        return character
    return f"\\u{ord(character):04x}"
