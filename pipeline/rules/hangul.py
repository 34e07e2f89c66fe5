"""One form for each Hangul character, and Korean text without Hanja."""

import re
import unicodedata

from pipeline.rules.characters import HANJA, VARIANT, kinds
from pipeline.rules.forms import FILLERS, FORM, HAS_FORM
from pipeline.rules.forms import VARIANT as VARIANT_PATTERN

_FILLERS = str.maketrans("", "", FILLERS)
_VARIANTS = re.compile(VARIANT_PATTERN + HAS_FORM)


def normalise_hangul(text: str) -> str:
    """Compose syllables, bring jamo, middle dots and full-width letters to one form; idempotent.

    The normaliser of `tokenizer.json` does the same (vocab/pretokenize.py).
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    if not kinds(text) & VARIANT:
        return text
    text = unicodedata.normalize("NFC", text.translate(_FILLERS))
    return _VARIANTS.sub(lambda variant: FORM[variant[0]], text)


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
