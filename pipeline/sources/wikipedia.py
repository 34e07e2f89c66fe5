"""Wikipedia's XML dumps (pages-articles): one document an article, read as a stream."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import cast
from urllib.parse import quote
from xml.etree.ElementTree import Element, XMLParser, XMLPullParser

from electrify.config.clean import Source
from electrify.storage.encodings import is_utf8
from pipeline.rules.markup.wiki import CATEGORY, MEDIA
from pipeline.sources.input_file import Fault, InputFile, Raw, length_fault
from pipeline.sources.lines import read_chunks, to_utf8
from pipeline.sources.wikitext import WikiWords, plain_text

LICENCE = "CC-BY-SA-4.0"  # of the texts of all Wikipedias since 2023
_MARKUP_FACTOR = 8  # bytes of a page's XML for one of its text: "&quot;" is one character
_ARTICLE = "0"  # the namespace


def read_wikipedia(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """The articles of a dump: title, then the text. The row counts pages of every kind."""
    chunks: Iterable[bytes] = read_chunks(file)
    if not is_utf8(source.encoding):
        chunks = to_utf8(chunks, source.encoding)
    base, row = "", 0
    media, category = {*MEDIA}, {*CATEGORY}
    words: WikiWords | None = None
    for name, element in _elements(chunks, _MARKUP_FACTOR * max_line_bytes):
        if name == "base":  # address of the main page
            base = _text(element)
        elif name == "namespace":
            names = {"6": media, "-2": media, "14": category}.get(element.get("key", ""), set())
            names.add(_text(element).casefold())
        else:
            row += 1
            page = _parts(element)
            revision = _parts(page["revision"]) if "revision" in page else {}
            text = (revision["text"].text if "text" in revision else "") or ""
            is_redirect = "redirect" in page or text[:40].lstrip().upper().startswith("#REDIRECT")
            if is_redirect or _text(page.get("ns")) != _ARTICLE:
                continue
            page_id = _text(page.get("id")) or None
            if fault := length_fault(row, text, max_line_bytes, page_id):
                yield fault
                continue
            words = words or WikiWords(frozenset(media), frozenset(category), source.language)
            title = _text(page.get("title"))
            text = f"{title}\n{plain_text(text, words)}".strip()
            licence = source.licence or LICENCE
            yield Raw(row, text, url=_url(base, title), licence=licence, source_id=page_id)


def _elements(chunks: Iterable[bytes], max_bytes: int) -> Iterator[tuple[str, Element]]:
    """Name and element of each page, and of what siteinfo says of the wiki, where it ends.

    No dump declares entities: expat fetches none, and stops at those that grow within one another.
    """
    parser = XMLPullParser(("start", "end"), _parser=XMLParser(encoding="utf-8"))
    root: Element | None = None
    num_bytes = num_done = 0
    for chunk in chain(chunks, (None,)):
        if chunk is not None:
            parser.feed(chunk)
            num_bytes += len(chunk)
        elif num_bytes:
            parser.close()
        for event, element in cast(Iterable[tuple[str, Element]], parser.read_events()):
            name = element.tag.rpartition("}")[2]
            if root is None:
                root = element
                if name != "mediawiki":
                    raise OSError(f"not a Wikipedia dump: its outermost element is <{name}>")
            elif event == "end" and name in ("base", "namespace", "page"):
                yield name, element
                root.clear()
                num_done = num_bytes
        if num_bytes - num_done > max_bytes:
            raise OSError(f"not a Wikipedia dump: {max_bytes:,} bytes without the end of a page")


def _parts(element: Element) -> dict[str, Element]:
    """What stands right in the element by name, without a namespace; of one name the last."""
    return {part.tag.rpartition("}")[2]: part for part in element}


def _text(element: Element | None) -> str:
    return ((element is not None and element.text) or "").strip()


def _url(base: str, title: str) -> str | None:
    folder, slash, _ = base.rpartition("/")
    return f"{folder}/{quote(title.replace(' ', '_'), safe='/:@!$*(),;')}" if slash else None
