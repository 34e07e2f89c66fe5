"""Characters that have another form: half-width and lone jamo, full-width letters, middle dots.

Cleaning and the tokenizer's normaliser are both made from these definitions, so a text has the same
form for both. The patterns use only what Python, Oniguruma and JavaScript read alike; look-behind
of one length is one such restriction. All look at neighbours only, never at the language of a text.
The text is in NFC and has no `FILLERS`.
"""

import unicodedata

_LEADS, _VOWELS, _TAILS = (
    "\u1100-\u115e\ua960-\ua97c",
    "\u1161-\u11a7\ud7b0-\ud7c6",
    "\u11a8-\u11ff\ud7cb-\ud7fb",
)
FILLERS = "\u115f\u1160"  # of a missing lead, of a missing vowel
# letters and a symbol that people type as a space, and a line end that few programs know as one
_BLANKS = "\u3164\uffa0\u2800\x85"
_DOTS = "\u30fb\uff65\u2027\u2219\u22c5\u2022"
_ARAEA = "\u318d"
_MAX_RUN = 16  # marks


def _characters(*spans: tuple[int, int]) -> str:
    return "".join(chr(code) for first, last in spans for code in range(first, last + 1))


_HALF_WIDTH = "".join(filter(unicodedata.decomposition, _characters((0xFFA1, 0xFFDC))))
_MODERN_LEADS, _MODERN_VOWELS, _MODERN_TAILS = (
    _characters(span) for span in ((0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2))
)
_FULL_WIDTH_WORD = _characters((0xFF10, 0xFF19), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A))
# right in Chinese and Japanese; only after Hangul, or after others there, are they a slip
_FULL_WIDTH_MARKS = _characters(
    (0xFF01, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF5E)
)

# The form of each. Every one is one character.
FORM = (
    dict(
        zip(
            _MODERN_LEADS + _MODERN_VOWELS + _MODERN_TAILS,
            "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
            "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
            "ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ",
            strict=True,
        )
    )
    | {c: chr(int(unicodedata.decomposition(c).split()[1], 16)) for c in _HALF_WIDTH}
    | dict.fromkeys(_BLANKS, " ")
    | dict.fromkeys(_DOTS + _ARAEA, "\u00b7")
    | {c: chr(ord(c) - 0xFEE0) for c in _FULL_WIDTH_MARKS + _FULL_WIDTH_WORD}
)

_SYLLABLES = "가-힣"
_LETTERS = f"ㄱ-\u3163\u3165-ㆎ{_HALF_WIDTH}"  # jamo of the compatibility block, now or after
_HANGUL = _SYLLABLES + _LETTERS + _MODERN_LEADS + _MODERN_VOWELS + _MODERN_TAILS
_WORD = f"0-9A-Za-z{_FULL_WIDTH_WORD}"


def _behind(*each: str) -> str:
    return "|".join(f"(?<={one})" for one in each)


def _not_behind(*each: str) -> str:
    return "".join(f"(?<!{one})" for one in each)


_MARK = f"[{_FULL_WIDTH_MARKS}]"
_ACCENT = "[\u0300-\u036f]"
_LEAD, _VOWEL, _TAIL = f"[{_LEADS}]", f"[{_VOWELS}]", f"[{_TAILS}]"
# U+318D is the dot of laws and newspapers, but between jamo it is the old vowel (arae-a)
_JAMO = f"[{_LETTERS}\u1100-\u11ff]"
# What is behind the character, which is the last one there, and before the rest of the text. A lead
# with a vowel is an Old Korean syllable and stays, with its tails: NFC has composed all others.
# A letter or mark with an accent stays, for the accent would compose with the other form.
_CASES = (
    f"(?<=[{_HALF_WIDTH}{_BLANKS}])",
    f"(?<=[{_FULL_WIDTH_WORD}])(?!{_ACCENT})",
    f"(?<=[{_HANGUL}{_FULL_WIDTH_MARKS}]{_MARK})"
    f"(?:{_behind(*(f'[{_HANGUL}]{_MARK}{{{n}}}' for n in range(1, _MAX_RUN + 1)))})"
    f"(?!{_ACCENT})",
    f"(?<=[{_DOTS}])(?:(?<=[{_SYLLABLES}{_WORD})）」’”].)(?=[{_SYLLABLES}])"
    f"|(?<=[{_SYLLABLES}].)(?=[{_WORD}(「‘“]))",
    f"(?<={_ARAEA})(?<!{_JAMO}.)(?!{_JAMO})",
    f"(?<=[{_MODERN_LEADS}])(?!{_LEAD}{{0,2}}{_VOWEL})",
    f"(?<=[{_MODERN_VOWELS}])" + _not_behind(*(_LEAD + n * _VOWEL + "." for n in range(3))),
    f"(?<=[{_MODERN_TAILS}])"
    + _not_behind(*(_LEAD + v * _VOWEL + t * _TAIL + "." for v in (1, 2, 3) for t in (0, 1, 2))),
)
VARIANT = f"[{''.join(FORM)}]"
# Behind a `VARIANT`: the empty string where the other form stands for it.
HAS_FORM = f"(?:{'|'.join(_CASES)})"
