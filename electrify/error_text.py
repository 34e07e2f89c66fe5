"""Parts of error messages."""

import difflib
from collections.abc import Iterable


def first_line(error: BaseException) -> str:
    """Of the message; where there is none, what kind of error it is."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """A question for the three known names that are most like an unknown one, whatever the case."""
    names = {each.lower(): each for each in known}
    *others, last = (names[n] for n in difflib.get_close_matches(name.lower(), names, 3, 0.0))
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
