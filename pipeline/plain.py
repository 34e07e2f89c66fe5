"""Short texts of plain words, told by one look: nearly every rule has nothing to do there.

Half of a corpus of comments or reviews is calls of rules that look and find nothing.
"""

import re

_MAX_CHARACTERS = 400  # of a longer text the look costs more than it saves
# Letters that are no mark of anything: no W and no O (www, masked words), one apostrophe at most,
# and numbers of three digits that no others follow. All that is left is blanks and repeats.
_PLAIN = re.compile(
    "(?! *[~^])(?:[A-NP-VX-Za-vx-z가-힣ㄱ-ㅣ .,!?~^;()%…♥♡·‘’“”]++"
    "|[0-9]{1,3}+(?![0-9\\-–. )(\n])|'(?!')|\"(?!\")|\n(?!\\s*[~^]))*+"
)
# the rules that may act on such a text
RULES = frozenset(["whitespace_squeezed", "repeats_squeezed"])


def is_plain(text: str) -> bool:
    """Can no rule but `RULES` change the text, nor a mask? Neither can they after these have."""
    return len(text) < _MAX_CHARACTERS and _PLAIN.fullmatch(text) is not None
