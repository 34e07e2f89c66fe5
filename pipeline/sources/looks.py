"""Files that no kind of source reads, or another kind does, and what to do with them."""

import codecs

from electrify.storage.encodings import guess_any_encoding, guess_encoding, is_utf8
from electrify.storage.tables import guess_delimiter
from pipeline.sources.json_file import head_values, text_path

_TABLE = 'a table: write kind = "{}" and text_field = the column of the text'
_OFFICE = "a document: write its text out, for example pandoc FILE --to plain -o FILE.txt"
_HANGUL = "save it as text in Hancom Office, or in LibreOffice with its extension H2Orestart"
_PDF = "a PDF: write its text out, for example pdftotext FILE FILE.txt"
# by the ending of the name
REFUSED = {
    ".csv": _TABLE.format("csv"),
    ".tsv": _TABLE.format("tsv"),
    **dict.fromkeys(
        (".xlsx", ".xls", ".ods"),
        f"a spreadsheet: save the sheet as CSV, which is {_TABLE.format('csv')}",
    ),
    **dict.fromkeys((".docx", ".odt", ".rtf", ".epub"), _OFFICE),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar"), "an archive: unpack it"),
    ".doc": "a document: save it as text in Word or LibreOffice",
    ".hwp": f"a document: write its text out, for example hwp5txt FILE > FILE.txt, or {_HANGUL}",
    ".hwpx": f"a document: {_HANGUL}",
    ".pdf": _PDF,
}
_PACKED = "a packed file: let its name end in {}"
_BEGINNINGS = (
    (b"PK\x03\x04", "a ZIP archive, as .xlsx, .docx and .hwpx are: unpack it, or save it as text"),
    (b"%PDF", _PDF),
    (b"\xd0\xcf\x11\xe0", "a document of Office or Hancom Office: save it as text"),
    (b"\x1f\x8b", _PACKED.format(".gz")),
    (b"BZh", _PACKED.format(".bz2")),
    (b"\xfd7zXZ", _PACKED.format(".xz")),
    (b"\x28\xb5\x2f\xfd", _PACKED.format(".zst")),
    (b"PAR1", 'Parquet: write kind = "parquet"'),
    (b"ARROW1", "an Arrow file: save it as Parquet"),
    (b"WARC/", 'web archive records: write kind = "wet"'),
    (b"version https://git-lfs", "a pointer to a file: fetch it with git lfs pull"),
    (b"<mediawiki", 'a dump of Wikipedia: write kind = "wikipedia"'),
    (b"<!doctype html", "a web page: write its text out"),
    (b"<html", "a web page: write its text out"),
    (b"<", "XML: write its texts out, one JSON object a line"),
)
_SAMPLE_BYTES = 1 << 16


def describe(head: bytes, kind: str = "", encoding: str = "utf-8", language: str = "") -> str:
    """What the head of a file, read as `kind`, looks like, and what to do; empty if nothing."""
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()[:100].lower()
    for beginning, what in _BEGINNINGS:
        if start.startswith(beginning.lower()) or head.startswith(beginning):
            return "" if f'"{kind}"' in what else what
    guess = (language and guess_encoding(head, language)) or guess_any_encoding(head)
    if guess != encoding and not (is_utf8(guess) and is_utf8(encoding)):
        return f"text in {guess}: write encoding = {guess!r}"
    text = head.decode(guess, "replace")
    if text.lstrip("\ufeff \r\n\t")[:1] in ("{", "[") and (json := _describe_json(text, kind)):
        return json
    delimiter = guess_delimiter(text[:_SAMPLE_BYTES])
    if kind not in ("csv", "tsv") and delimiter in text.partition("\n")[0]:
        return f'a table with {delimiter!r} between its cells: write kind = "csv"'
    is_text = all(c.isprintable() or c.isspace() for c in text[:1000])
    return 'text: write kind = "text"' if kind not in ("text", "csv", "tsv") and is_text else ""


def _describe_json(text: str, kind: str) -> str:
    values, is_one = head_values(text.encode("utf-8", "surrogatepass"))
    if not values:
        return ""
    if isinstance(values[0], str):
        return "a list of texts: write jq -c '.[] | {text: .}' FILE > FILE.jsonl"
    if (path := text_path(values, is_one)) is None:
        return "JSON without text"
    what = "JSON" if kind == "jsonl" else 'JSON: write kind = "jsonl" and'
    return f"{what} with text at text_field = {path!r}"
