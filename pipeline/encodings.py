"""Text in other encodings than UTF-8: made UTF-8 as it is read, and guessed where it fails."""

import codecs
from collections.abc import Iterable, Iterator

_SAMPLE_BYTES = 1 << 16
# codecs that a language's older files are written in, the most usual first
_LIKELY = {
    "ko": ("cp949",),
    "ja": ("cp932", "euc_jp", "iso2022_jp"),
    "zh": ("gb18030", "big5"),
    "ru": ("cp1251", "koi8_r"),
    "uk": ("cp1251", "koi8_u"),
    "ar": ("cp1256",),
    "fa": ("cp1256",),
    "he": ("cp1255",),
    "el": ("cp1253",),
    "tr": ("cp1254",),
    "vi": ("cp1258",),
    "th": ("cp874",),
    "pl": ("cp1250", "iso8859_2"),
    "cs": ("cp1250", "iso8859_2"),
    "hu": ("cp1250", "iso8859_2"),
}
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as the mark of UTF-16 does, so it is looked at first
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# what a text of the language is written in beside ASCII; other languages: Latin letters
_SCRIPTS = {
    "ko": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xAC00, 0xD7A3)),
    "ja": ((0x3000, 0x30FF), (0x4E00, 0x9FFF)),
    "zh": ((0x3000, 0x303F), (0x4E00, 0x9FFF), (0xFF01, 0xFF5E)),
    "ru": ((0x0430, 0x045F), (0x0400, 0x042F)),
    "uk": ((0x0430, 0x045F), (0x0400, 0x042F), (0x0490, 0x0491)),
    "ar": ((0x0600, 0x06FF),),
    "fa": ((0x0600, 0x06FF),),
    "he": ((0x0590, 0x05FF),),
    "el": ((0x0370, 0x03FF),),
    "th": ((0x0E00, 0x0E7F),),
}
_LATIN = ((0x00C0, 0x024F), (0x0300, 0x036F), (0x2010, 0x201E))


def is_utf8(encoding: str) -> bool:
    """Whether the codec is UTF-8, with a byte order mark or without."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def to_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The same text as UTF-8 bytes. What the codec refuses becomes bytes that UTF-8 refuses.

    So a bad place stays a fault of its row, and lines are found by their newline byte whatever the
    encoding. `OSError` where the codec takes nothing, as UTF-16 without its mark.
    """
    decoder = codecs.getincrementaldecoder(encoding)("electrify_mark")
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode("utf-8", "surrogatepass")
        if last := decoder.decode(b"", True):
            yield last.encode("utf-8", "surrogatepass")
    except UnicodeError as error:
        hint = f"; is it {encoding}-le or {encoding}-be?" if "BOM" in str(error) else ""
        raise OSError(f"no text in {encoding}: {error}{hint}") from error


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udc80", error.end  # a lone surrogate, which strict UTF-8 does not take


codecs.register_error("electrify_mark", _mark)


def guess_encoding(data: bytes, language: str) -> str | None:
    """The codec in which the head of a file reads as text of the language; none if none does."""
    sample = data[:_SAMPLE_BYTES]
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return encoding
    if sample.count(0) > len(sample) // 5:  # a letter of ASCII has a zero beside it in UTF-16
        encoding = "utf-16-be" if sample[::2].count(0) * 2 > sample.count(0) else "utf-16-le"
        wide = _decoded(sample, encoding) or ""
        printable = sum(character.isprintable() or character.isspace() for character in wide)
        return encoding if wide and printable > 0.9 * len(wide) else None
    if not sample.isascii() and _decoded(sample, "utf-8") is not None:
        return "utf-8"
    spans = _SCRIPTS.get(language, _LATIN)
    scores = []
    for order, encoding in enumerate(_LIKELY.get(language, ("cp1252",))):
        text = _decoded(sample, encoding)
        if text is not None and (score := _share(text, spans)) > 0.5:
            scores.append((score, -order, encoding))
    return max(scores)[2] if scores else None


def _decoded(sample: bytes, encoding: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)  # the last letter may be cut
    except UnicodeDecodeError:
        return None


def _share(text: str, spans: tuple[tuple[int, int], ...]) -> float:
    """The share of the signs beyond ASCII that are in the script, small letters counting most."""
    beyond = [character for character in text if not character.isascii()]
    found = 0.0
    for character in beyond:
        if any(first <= ord(character) <= last for first, last in spans):
            found += 0.8 if character.isupper() else 1.0
    return found / len(beyond) if beyond else 0.0
