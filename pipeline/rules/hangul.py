"""One form for each Hangul character: the function that a tokenizer's normaliser freezes.

It looks at characters and their neighbours only, never at the language of a document, so that the
corpus and the tokenizer agree on every text. All steps are char to char but NFC and the fillers.
"""

import re
import unicodedata

from pipeline.rules.characters import DOT, FULL_WIDTH_MARK, HALF_WIDTH, HANJA, JAMO, kinds

_LEADS = "".join(map(chr, range(0x1100, 0x1113)))
_VOWELS = "".join(map(chr, range(0x1161, 0x1176)))
_TAILS = "".join(map(chr, range(0x11A8, 0x11C3)))
_MODERN = dict(
    zip(
        _LEADS + _VOWELS + _TAILS,
        "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
        "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
        "ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ",
        strict=True,
    )
)
# Conjoining jamo that NFC left. A lead with a vowel is an Old Korean syllable and stays (so does
# an old tail after any syllable); a modern jamo by itself is what the compatibility letter is for.
# Leads without a vowel are taken at once, so that a long row of them costs linear time.
_JAMO_UNIT = re.compile(
    "[\u1100-\u115e\ua960-\ua97c]++"
    "([\u1161-\u11a7\ud7b0-\ud7c6]++[\u11a8-\u11ff\ud7cb-\ud7fb]*+)?"
    f"|[{_VOWELS}{_TAILS}]"
)
_MODERN_CODES = str.maketrans(_MODERN)
_FILLERS = re.compile("[\u115f\u1160]+")
# half-width jamo (KS X 1001 terminals) and the wide blank, which people type as a space
_HALF_WIDTH = {
    code: int(unicodedata.decomposition(chr(code)).split()[1], 16)
    for code in range(0xFFA1, 0xFFDD)
    if unicodedata.decomposition(chr(code))
} | {0xFFA0: 0x20, 0x3164: 0x20}
_FULL_WIDTH_WORD = {
    code: code - 0xFEE0
    for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
}
_TO_MAP = re.compile("[\u3164\uffa0-\uffdc０-９Ａ-Ｚａ-ｚ]+")
_MAP = _HALF_WIDTH | _FULL_WIDTH_WORD
# Full-width punctuation is right in Chinese and Japanese: only after Hangul is it a slip.
_FULL_WIDTH_MARKS = re.compile("[！-／：-＠［-｀｛-～](?<=[가-힣ㄱ-ㆎ].)[！-／：-＠［-｀｛-～]*")
_MARKS = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
# U+318D is the dot of laws and newspapers, but between jamo it is the old vowel (arae-a)
_ARAEA_AS_DOT = re.compile("\u318d(?<![ㄱ-ㆎ\u1100-\u11ff].)(?![ㄱ-ㆎ\u1100-\u11ff])")
_DOTS = re.compile(
    "[\u30fb\uff65\u2027\u2219\u22c5\u2022\u0387]"
    "(?:(?<=[가-힣0-9A-Za-z)」’”].)(?=[가-힣])|(?<=[가-힣].)(?=[0-9A-Za-z(「‘“]))"
)


def normalise_hangul(text: str) -> str:
    """Compose syllables, bring jamo, middle dots and full-width letters to one form; idempotent."""
    if text.isascii():
        return text
    while (changed := _one_round(text)) != text:
        text = changed
    return text


def _one_round(text: str) -> str:
    text = unicodedata.normalize("NFC", text)
    held = kinds(text)
    if held & JAMO:
        text = unicodedata.normalize("NFC", _FILLERS.sub("", text))
        text = _JAMO_UNIT.sub(
            lambda unit: unit[0] if unit[1] else unit[0].translate(_MODERN_CODES), text
        )
    if held & HALF_WIDTH:
        text = _TO_MAP.sub(lambda run: run[0].translate(_MAP), text)
    if held & FULL_WIDTH_MARK:
        text = _FULL_WIDTH_MARKS.sub(lambda marks: marks[0].translate(_MARKS), text)
    if held & DOT:
        text = _DOTS.sub("\u00b7", _ARAEA_AS_DOT.sub("\u00b7", text))
    return text


HANJA_RANGES = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
# "법률(法律)", "이순신(李舜臣, 1545~1598)": the brackets go where nothing else is in them
_GLOSS = re.compile(rf" ?[(（\[〔][{HANJA_RANGES}][{HANJA_RANGES} ,·ㆍ・]*+[)）\]〕]")
_GLOSS_HEAD = re.compile(rf"([(（\[〔])[{HANJA_RANGES}][{HANJA_RANGES} ·ㆍ・]*+[,;:] *")
_RUN = re.compile(f"[{HANJA_RANGES}]+")


def drop_hanja(text: str) -> str:
    """Remove Hanja: glosses with their brackets, other runs by themselves. For Korean only."""
    if not kinds(text) & HANJA:
        return text
    text = _GLOSS.sub("", text)
    return _RUN.sub("", _GLOSS_HEAD.sub(r"\1", text))
