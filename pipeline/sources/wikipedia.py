"""Wikipedia's XML dumps (pages-articles): one document an article, read as a stream."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, XMLPullParser

from electrify.config.clean import Source
from pipeline.rules.markup.wiki import CATEGORY, MEDIA
from pipeline.sources.input_file import Fault, InputFile, Raw, length_fault
from pipeline.sources.lines import read_chunks
from pipeline.sources.wikitext import WikiWords, plain_text

LICENCE = "CC-BY-SA-4.0"  # of the texts of all Wikipedias since 2023
_MAX_PAGE_BYTES = 1 << 21  # MediaWiki takes no longer text
_ARTICLE = "0"  # the namespace


def read_wikipedia(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """The articles of a dump: title, then the text. The row counts pages of every kind."""
    base, words, row = "", WikiWords(language=source.language), 0
    for element in _elements(read_chunks(file), 2 * max(_MAX_PAGE_BYTES, max_line_bytes)):
        if element.tag.endswith("siteinfo"):
            base, words = element.findtext("{*}base", "").strip(), _words(element, source.language)
            continue
        row += 1
        xml = element.tag.removesuffix("page")  # the name space of all elements
        title, namespace, page_id = (
            element.findtext(f"{xml}{name}", "").strip() for name in ("title", "ns", "id")
        )
        revisions = element.findall(f"{xml}revision/{xml}text")
        wikitext = (revisions[-1].text or "") if revisions else ""
        is_redirect = wikitext[:40].lstrip().upper().startswith("#REDIRECT")
        if namespace != _ARTICLE or is_redirect or element.find(f"{xml}redirect") is not None:
            continue
        if fault := length_fault(row, wikitext, max_line_bytes):
            yield replace(fault, source_id=page_id or None)
            continue
        text = f"{title}\n{plain_text(wikitext, words)}".strip()
        licence = source.licence or LICENCE
        yield Raw(row, text, url=_url(base, title), licence=licence, source_id=page_id or None)


def _elements(chunks: Iterable[bytes], max_bytes: int) -> Iterator[Element]:
    """The siteinfo and the pages of a dump, of which one at a time is in memory.

    `OSError` for XML of another kind, or where none of them ends within so many bytes.
    """
    parser: Any = XMLPullParser(("start", "end"))
    root: Element | None = None
    num_bytes, chunk, before = 0, b"", b""
    for chunk in chunks:
        # entities in one another outgrow all memory
        if root is None and b"<!DOCTYPE" in before[-8:] + chunk:
            raise OSError("not a Wikipedia dump: it declares a document type")
        before = chunk
        parser.feed(chunk)
        num_bytes += len(chunk)
        for event, element in parser.read_events():
            if root is None:
                root = element
                if (name := root.tag.rpartition("}")[2]) != "mediawiki":
                    raise OSError(f"not a Wikipedia dump: its outermost element is <{name}>")
                wanted = [root.tag.removesuffix(name) + of for of in ("page", "siteinfo")]
            elif event == "end" and element.tag in wanted:
                yield element
                root.clear()
                num_bytes = 0
        if num_bytes > max_bytes:
            raise OSError(
                "not a Wikipedia dump, or clean.max_line_bytes is too small: a page has more than "
                f"{max_bytes:,} bytes"
            )
    if chunk:
        parser.close()


def _words(siteinfo: Element, language: str) -> WikiWords:
    """What the wiki calls its namespaces, beside the names that are known."""
    names = {"-2": set(MEDIA), "6": set(MEDIA), "14": set(CATEGORY)}
    for namespace in siteinfo.iterfind("{*}namespaces/{*}namespace"):
        names.get(namespace.get("key", ""), set()).add((namespace.text or "").strip().casefold())
    return WikiWords(frozenset(names["-2"] | names["6"]), frozenset(names["14"]), language)


def _url(base: str, title: str) -> str | None:
    folder, slash, _ = base.rpartition("/")
    return f"{folder}/{quote(title.replace(' ', '_'), safe='/:@!$*(),;')}" if slash else None
