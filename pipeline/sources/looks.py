"""What files look like: the kind of source that reads them, or what to do with them."""

import codecs
import tomllib
from collections.abc import Mapping
from pathlib import Path

from electrify.config.clean import Kind
from electrify.storage.encodings import guess_any_encoding, guess_encoding, is_utf8
from electrify.storage.tables import guess_delimiter
from pipeline.sources.json_file import head_values, text_path

_FORMATS = tomllib.loads(Path(__file__).with_name("formats.toml").read_text(encoding="utf-8"))


def _by_ending(advice: Mapping[str, str]) -> dict[str, str]:
    return {ending: what for endings, what in advice.items() for ending in endings.split()}


KIND_OF_ENDING: dict[str, Kind] = {
    ending: kind for kind, endings in _FORMATS["kinds"].items() for ending in endings
}
REFUSED, UNREAD = _by_ending(_FORMATS["refused"]), _by_ending(_FORMATS["unread"])
_BEGINNINGS: list[tuple[bytes, str]] = [
    *((bytes.fromhex(start), what) for start, what in _FORMATS["beginnings"]["hex"]),
    *((start.encode(), what) for start, what in _FORMATS["beginnings"]["text"]),
]
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
