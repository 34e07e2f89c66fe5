"""Wikipedia's XML dumps (pages-articles): one document an article, read as a stream."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote
from xml.parsers import expat

from electrify.config.clean import Source
from electrify.storage.encodings import is_utf8
from pipeline.rules.markup.wiki import CATEGORY, MEDIA
from pipeline.sources.input_file import HEAD_BYTES, Fault, InputFile, Raw, TooLong, too_long
from pipeline.sources.lines import read_chunks, to_utf8
from pipeline.sources.wikitext import WikiWords, plain_text

LICENCE = "CC-BY-SA-4.0"  # of the texts of all Wikipedias since 2023
_MAX_TITLE_BYTES = 1 << 16
_MAX_TAG_BYTES = 1 << 24  # of a tag or comment, which expat holds whole
_MAX_NAMESPACES = 1000
_SHORT_ELEMENTS = ("title", "ns", "id", "base", "namespace")
_ARTICLE = "0"  # the namespace


@dataclass(slots=True)
class _Page:
    title: str = ""
    ns: str = ""
    text: str | TooLong = ""
    is_redirect: bool = False
    id: str = ""
    in_revision: bool = False  # which has an id of its own, and so has its contributor


class _Dump:
    """Expat's handlers: whole pages gather in `pages`, and what siteinfo says of the wiki.

    It holds no more of an element than its limit of bytes.
    """

    def __init__(self, max_bytes: int) -> None:
        self.pages: list[_Page] = []
        self.root = ""
        self.base = ""  # address of the main page
        self.media: set[str] = set()
        self.category: set[str] = set()
        self._max_bytes = max_bytes
        self._page = _Page()
        self._limit = -1  # of the element being read; below zero: it is not kept
        self._pieces: list[str] = []
        self._num_bytes = 0
        self._key = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.root = self.root or name
        if name == "page":
            self._page = _Page()
        elif name == "revision":
            self._page.in_revision = True
        elif name == "redirect":
            self._page.is_redirect = True
        elif name == "namespace":
            self._key = attributes.get("key", "")
        if name in _SHORT_ELEMENTS:
            self._begin(_MAX_TITLE_BYTES)
        elif name == "text":
            self._begin(self._max_bytes)

    def characters(self, data: str) -> None:
        if self._limit < 0:
            return
        if self._num_bytes <= self._limit:
            self._pieces.append(data)
        self._num_bytes += len(data) if data.isascii() else len(data.encode())

    def end(self, name: str) -> None:
        if name == "page":
            self.pages.append(self._page)
        elif name == "text":
            self._page.text = self._element()
        elif name in _SHORT_ELEMENTS:
            value = self._element()
            self._take(name, value.strip() if isinstance(value, str) else "")
        self._limit = -1

    def _take(self, name: str, value: str) -> None:
        if name == "base":
            self.base = value
        elif name == "namespace":
            names = {"6": self.media, "-2": self.media, "14": self.category}.get(self._key, set())
            if len(names) < _MAX_NAMESPACES:
                names.add(value.casefold())
        elif name != "id" or not self._page.in_revision:
            setattr(self._page, name, value)

    def entity(self, name: str, *_: object) -> None:
        """No dump declares entities; one inside another grows beyond all memory."""
        raise OSError(f"not a Wikipedia dump: it declares the entity {name!r}")

    def _begin(self, limit: int) -> None:
        self._limit, self._pieces, self._num_bytes = limit, [], 0

    def _element(self) -> str | TooLong:
        text = "".join(self._pieces)
        self._pieces = []
        if self._num_bytes <= self._limit:
            return text
        return TooLong(self._num_bytes, text[:HEAD_BYTES].encode())


def read_wikipedia(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """The articles of a dump: title, then the text. The row counts pages of every kind."""
    chunks: Iterable[bytes] = read_chunks(file)
    if not is_utf8(source.encoding):
        chunks = to_utf8(chunks, source.encoding)
    dump = _Dump(max_line_bytes)
    row = 0
    words: WikiWords | None = None
    for page in _pages(chunks, dump):
        row += 1
        if page.ns != _ARTICLE or _is_redirect(page):
            continue
        if isinstance(page.text, TooLong):
            yield replace(too_long(row, page.text, max_line_bytes), source_id=page.id or None)
            continue
        if words is None:
            words = WikiWords(MEDIA | dump.media, CATEGORY | dump.category, source.language)
        text = f"{page.title}\n{plain_text(page.text, words)}".strip()
        licence = source.licence or LICENCE
        url = _url(dump.base, page.title)
        yield Raw(row, text, url=url, licence=licence, source_id=page.id or None)


def _pages(chunks: Iterable[bytes], dump: _Dump) -> Iterator[_Page]:
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True  # one call for a run of characters, not one a line
    parser.buffer_size = 1 << 16
    parser.StartElementHandler = dump.start
    parser.EndElementHandler = dump.end
    parser.CharacterDataHandler = dump.characters
    parser.EntityDeclHandler = dump.entity
    num_bytes = 0
    try:
        for chunk in chunks:
            num_bytes += len(chunk)
            parser.Parse(chunk, False)
            yield from dump.pages
            dump.pages.clear()
            if dump.root not in ("", "mediawiki"):
                raise OSError(f"not a Wikipedia dump: its outermost element is <{dump.root}>")
            if num_bytes - parser.CurrentByteIndex > _MAX_TAG_BYTES:
                raise OSError(
                    "not a Wikipedia dump: it has a tag or comment of more than "
                    f"{_MAX_TAG_BYTES:,} bytes"
                )
        if num_bytes:
            parser.Parse(b"", True)
    except expat.ExpatError:
        yield from dump.pages  # whole before the fault
        raise


def _is_redirect(page: _Page) -> bool:
    if page.is_redirect:
        return True
    head = page.text.head.decode() if isinstance(page.text, TooLong) else page.text[:40]
    return head.lstrip().upper().startswith("#REDIRECT")


def _url(base: str, title: str) -> str | None:
    folder, slash, _ = base.rpartition("/")
    return f"{folder}/{quote(title.replace(' ', '_'), safe='/:@!$*(),;')}" if slash else None
