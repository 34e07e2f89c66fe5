"""Marks of Markdown's emphasis, where they cannot be operators, footnotes or faces."""

import re

# An opening mark has no letter or digit before it and a closing mark no ASCII one after it (a
# particle may follow: "**굵게**는"); both touch what they mark, and that holds a letter. Patterns
# begin with the mark itself, for which a search leaps.
_OPEN = r"(?=[\w(\[\"'`“‘「《<./#$%&~\-+]|:[a-z])"
_LETTER = r"[A-Za-z가-힣\u0080-\u10ff\u1e00-\u1fff\u3041-\u30fe\u4e00-\u9fff]"
_CLOSE = r"(?<=[\w)\]\"'`”’」》>.!?,:;%/+…。！？，：；）])"
_STARS = [
    re.compile(
        rf"{mark}(?<![\w*\\/`]{mark}){_OPEN}((?=[^*\n]*{held})[^*\n]{{1,400}}?){_CLOSE}{mark}"
        r"(?![A-Za-z0-9_*])"
    )
    for mark, held in ((r"\*\*\*", r"\w"), (r"\*\*", r"\w"), (r"\*", _LETTER))
]
# "__init__" and "_private" are names, "_이름_" is chat: only words with a space between them
_UNDERSCORES = re.compile(
    r"_(?<![\w\\`*]_)(?=_?[^\W_])(_?)([^\W_][^\W_.'\-]*+(?=[ .'\-])[\w .'\-]{0,200}?[^\W_])"
    r"_\1(?![A-Za-z0-9_])"
)


def remove_emphasis(text: str) -> str:
    """`**words**`, `*words*` and `_two words_` to the words."""
    if "*" in text:
        for marks in _STARS:
            text = marks.sub(r"\1", text)
    return _UNDERSCORES.sub(_spaced, text) if "_" in text else text


def _spaced(marked: re.Match[str]) -> str:
    return marked[2] if " " in marked[2] else marked[0]
