"""Marks of Markdown's emphasis, where they cannot be operators, footnotes or faces."""

import re

# An opening mark has no letter or digit before it and a closing mark no ASCII one after it (a
# particle may follow: "**굵게**는"); both touch what they mark, and that holds a letter. Patterns
# begin with the mark itself, for which a search leaps.
_OPEN = r"(?=[\w(（【『\[\"'`“‘「《«„¿¡<./#$%&~\-+]|:[a-z])"
_LETTER = r"[A-Za-z가-힣\u0080-\u10ff\u1e00-\u1fff\u3041-\u30fe\u4e00-\u9fff]"
# vowel signs, points and joiners, with which words of Arabic and Indic scripts may end: \w has none
_SIGNS = (
    r"\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0903\u093a-\u0957"
    r"\u0962\u0963\u0981-\u0e4e\u200c\u200d"
)
_CLOSE = rf"(?<=[\w{_SIGNS})\]\"'`”’」』》】»>.!?,:;%/+#…।؟،؛。！？、，：；）])"
# Kana and Han have no spaces between words; a single star between short ones may multiply.
_UNSPACED = r"[\u3041-\u30fe\u4e00-\u9fff]"
# What a mark may hold: "Item *p = (Item*)q; /* ... */" is C. Where Hangul follows, a few words:
# "**시장 ... 김**씨" are names that a site has hidden.
_STARS = [
    re.compile(
        rf"{mark}(?:(?<![\w{_SIGNS}*\\/`]{mark})|(?<=[\s(]_{mark})"
        rf"|(?<={_UNSPACED}{mark})(?=[^*\n]{{{length}}})){_OPEN}"
        rf"(?=[^*\n]*{held})({inside}{{1,80}}?{_CLOSE}(?={mark}[가-힣])"
        rf"|{inside}{{1,400}}?{_CLOSE}(?={mark}[^가-힣]|{mark}\Z)){mark}(?:(?<=[：。，、）」』】]{mark})(?!\*)|(?![A-Za-z0-9_*]))"
    )
    for mark, held, length, inside in (
        (r"\*\*\*", r"\w", 1, r"[^*\n]"),
        (r"\*\*", r"\w", 1, r"[^*\n]"),
        (r"\*", _LETTER, 4, r"[^*\n=;{}]"),
    )
]
# names that a site has hidden: "*** 대표", "****병원"
_HIDDEN = re.compile(r"\*{4}|\*{3}(?<![^\s(]\*{3})(?![^\s,.)])")
# "__init__" and "_private" are names, "_이름_" is chat, "_MACRO_" is C: only words with a space
# between them, or one word of letters that names and chat do not have, or as prose writes it
_UNDERSCORES = re.compile(
    rf"_(?<![\w{_SIGNS}\\`*]_)(?=_?[\"'“‘«¿¡(]{{0,2}}[^\W_])(_?)"
    rf"([\"'“‘«¿¡(]{{0,2}}[^\W_](?:[^\W_]|[{_SIGNS}])*+"
    rf"(?:(?=[ .,:;!?'\"’”…)\-])[\w{_SIGNS} .,:;!?'\"“”‘’«»…()/%&`\-–—،؛؟।]{{0,300}}?"
    rf"(?:[^\W_]|[{_SIGNS}.,;!?:)\"'”’»…`।]))?)_\1(?![A-Za-z0-9_`])"
)
_CODE_TOO = re.compile(r"[,:;!?\"()/%&]")
_CHAT = re.compile("[가-힣]")
_ENDS = ".,;:!?\"'"  # a sentence may begin or end with them, in code they stand between names
_PROSE = re.compile(r"[A-Za-z]|(?=\S*[a-z])[A-Za-z]+(?:['’.\-][A-Za-z]+)*[.,;:!?]{0,2}")


def remove_emphasis(text: str) -> str:
    """`**words**`, `*words*` and `_two words_` to the words."""
    if "*" in text:
        if "***" in text and _HIDDEN.search(text):
            lines = text.split("\n")
            text = "\n".join([x if _HIDDEN.search(x) else _without_stars(x) for x in lines])
        else:
            text = _without_stars(text)
    return _UNDERSCORES.sub(_spaced, text) if "_" in text else text


def _without_stars(text: str) -> str:
    for marks in _STARS:
        text = marks.sub(r"\1", text)
    return text


def _spaced(marked: re.Match[str]) -> str:
    words = marked[2]
    num_spaces = words.count(" ")
    if not num_spaces:
        is_word = _PROSE.fullmatch(words) or not (words.isascii() or _CHAT.search(words))
        return words if is_word and not marked[1] else marked[0]  # "__init__"
    if " _" in words or "_ " in words:  # "_private and _DEBUG_"
        return marked[0]
    # "f(_first, last_)"
    return words if num_spaces > 2 or not _CODE_TOO.search(words.strip(_ENDS)) else marked[0]
