"""Wikipedia's XML dumps (pages-articles): one document an article, read as a stream.

MediaWiki's markup becomes plain text in one scan, linear in the text whatever is left unclosed.
Kept are words of links and of the templates in data/templates.toml, headings, paragraphs, and list
items as lines; closing sections (references, external links ...) go. mwparserfromhell, a full
parser, takes time quadratic in unclosed tags; the tests compare with it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, XMLPullParser

from electrify.config.clean import Source
from pipeline.rules.data import compile_all, read_table
from pipeline.rules.markup.html import raised, unescaped
from pipeline.rules.markup.wiki import (
    CATEGORY,
    HOLE,
    MEDIA,
    shown_forms,
    shown_words,
    without_holes,
)
from pipeline.sources.input_file import Fault, InputFile, Raw, length_fault
from pipeline.sources.lines import read_chunks

LICENCE = "CC-BY-SA-4.0"  # of the texts of all Wikipedias since 2023
_MAX_PAGE_BYTES = 1 << 21  # MediaWiki takes no longer text
_ARTICLE = "0"  # the namespace
_TABLE = read_table("wiki")
CLOSING = frozenset(map(str.casefold, _TABLE["closing"]))
_RE = compile_all(_TABLE["dump"], {})


@dataclass(frozen=True)
class WikiWords:
    """What a wiki calls the namespaces whose links show no words of the text, in small letters."""

    media: frozenset[str] = MEDIA
    category: frozenset[str] = CATEGORY
    language: str = "en"

    def hides(self, namespace: str) -> bool:
        """Whether a link into the namespace is a picture or a category."""
        name = namespace.strip().replace("_", " ").casefold()
        return name in self.media or name in self.category


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
                wanted = [root.tag.removesuffix(name) + inner for inner in ("page", "siteinfo")]
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


# MediaWiki's markup

# markup signs as entities, which are resolved after the scan
_SHIELD = {ord(sign): f"&#{ord(sign)};" for sign in "{}[]|'<>=*#:;_-"}
_MAX_OPEN = 16  # links and templates within one another whose words are still looked for


@dataclass(slots=True)
class _Open:
    """Markup whose end is not yet found, with the text inside it."""

    kind: str  # "{{", "[[", "{|", "<ref"
    pieces: list[str] = field(default_factory=list)


def plain_text(wikitext: str, words: WikiWords = WikiWords()) -> str:
    """The text of a page, its sections' headings on lines of their own."""
    text = wikitext.replace(HOLE, "")
    if "<!--" in text:
        text = _RE["comment"].sub("", text)  # MediaWiki: an unclosed one hides the rest
    if "<" in text:
        text = _without_raw_tags(text)
    if "-{" in text:
        text = _RE["variant"].sub(_variant, text)
    text = _Scan(words).run(text)
    if "__" in text:
        text = _RE["magic"].sub("", text)
    if "''" in text:
        text = _RE["quotes"].sub("", text)
    if "<" in text:
        text = _RE["tag"].sub("", _RE["break"].sub("\n", raised(text)))
    if "&" in text:
        text = unescaped(text).replace("\xa0", " ")
    if HOLE in text:
        text = without_holes(text)
    text = _RE["loose"].sub("", _RE["empty_brackets"].sub("", text))
    return "\n".join(_sections(text))


class _Scan:
    """One walk over the markup with a stack of what is open."""

    def __init__(self, words: WikiWords) -> None:
        self._words = words
        self._stack = [_Open("")]
        self._count = {"{{": 0, "[[": 0, "{|": 0, "<ref": 0}

    def run(self, text: str) -> str:
        at = 0
        for match in _RE["token"].finditer(text):
            if match.start() > at:
                self._stack[-1].pieces.append(text[at : match.start()])
            at = match.end()
            self._take(match)
        self._stack[-1].pieces.append(text[at:])
        self._unclosed()
        return "".join(self._stack[0].pieces)

    def _take(self, match: re.Match[str]) -> None:
        token = match.group()
        kind = match.lastgroup
        if token in ("{{", "[["):
            self._open(token)
        elif token == "}}":
            self._close_template()
        elif token == "]]":
            self._close_link()
        elif kind == "table":
            self._open("{|")
        elif kind == "end":
            self._drop("{|", token)
        elif kind == "label":
            self._stack[-1].pieces.append(match["label"])
        elif kind == "section":
            self._unclosed()
            self._stack[-1].pieces.append(token)
        elif kind == "paragraph":
            self._end_links()
            self._stack[-1].pieces.append(token)
        elif match["ref"]:
            self._drop("<ref", "")
        elif not match["attributes"].rstrip().endswith("/"):
            self._open("<ref")

    def _open(self, kind: str) -> None:
        if kind == "[[" and self._count[kind] >= _MAX_OPEN:
            return
        self._count[kind] += 1
        self._stack.append(_Open(kind))

    def _pop(self) -> _Open:
        last = self._stack.pop()
        self._count[last.kind] -= 1
        return last

    def _drop(self, kind: str, otherwise: str) -> None:
        """Remove the innermost open markup of the kind with all that is in it."""
        if not self._count[kind]:
            self._stack[-1].pieces.append(otherwise)
            return
        while self._pop().kind != kind:
            pass
        self._stack[-1].pieces.append(HOLE)

    def _close_template(self) -> None:
        if self._stack[-1].kind != "{{" or self._count["{{"] > _MAX_OPEN:
            self._drop("{{", "")
            return
        pieces = self._pop().pieces
        forms = shown_forms(pieces[0], self._words.language) if pieces else None
        words = shown_words("".join(pieces), forms) if forms else ""
        self._stack[-1].pieces.append(words or HOLE)

    def _close_link(self) -> None:
        if self._stack[-1].kind != "[[":
            return
        inside = "".join(self._pop().pieces)
        target, bar, label = inside.partition("|")
        namespace, colon, page = target.partition(":")
        is_picture = namespace.strip() and _RE["picture"].search(page)
        if colon and (is_picture or self._words.hides(namespace)):
            self._stack[-1].pieces.append(HOLE)
            return
        if not namespace.strip() and colon:  # [[:Category:X]] is a link to see
            target = page
        elif colon and not bar and re.fullmatch(r"[a-z]{2,3}(?>(?:-[a-z]{2,12})*)", namespace):
            return  # the page in another language
        shown = label if label.strip() else target
        if self._count["{{"]:  # its marks are not those of the template's arguments
            shown = shown.replace("|", "&#124;").replace("=", "&#61;")
        self._stack[-1].pieces.append(shown)

    def _end_links(self) -> None:
        """A link does not reach over a paragraph."""
        opened: list[_Open] = []
        while self._stack[-1].kind == "[[":
            opened.append(self._pop())
        for link in reversed(opened):
            self._stack[-1].pieces.extend(link.pieces)

    def _unclosed(self) -> None:
        """At a heading or the end nothing is open: what was never closed was no markup.

        Of a template the line on which it opens goes; of a table all of it, for a table's end is
        often left out.
        """
        base = self._stack[0].pieces
        for opened in self._stack[1:]:
            self._count[opened.kind] -= 1
            text = "".join(opened.pieces)
            if opened.kind == "{{":
                text = "\n" + text.partition("\n")[2]
            if opened.kind != "{|":
                base.append(text)
        del self._stack[1:]


def _without_raw_tags(text: str) -> str:
    pieces = []
    at = 0
    never: set[str] = set()  # names whose end does not come any more: looked for once
    while match := _RE["raw_tag"].search(text, at):
        name = match[1].lower()
        pieces.append(text[at : match.start()])
        at = match.end()
        if match[2].endswith("/") or name in never:
            continue
        end = re.compile(rf"</{name}\s*+>", re.IGNORECASE).search(text, at)
        if end is None:
            never.add(name)
            continue
        inside = text[at : end.start()]
        pieces.append(inside.translate(_SHIELD) if name == "nowiki" else HOLE)
        at = end.end()
    return "".join(pieces) + text[at:]


def _variant(match: re.Match[str]) -> str:
    """The first of the forms in `-{zh-hans:计算机; zh-hant:電腦}-`; a rule shows nothing."""
    flags, bar, forms = match[1].rpartition("|")
    if bar and flags.strip() in ("H", "T", "-", "A;H"):
        return ""
    first = forms.partition(";")[0]
    code, colon, form = first.partition(":")
    return form.strip() if colon and code.strip().lower().startswith("zh") else forms


def _sections(text: str) -> list[str]:
    """Lines without list signs; closing sections and headings of nothing left out."""
    lines: list[str] = []
    waiting: list[tuple[int, str]] = []  # headings whose section has no text yet
    closing = 0  # level of the closing section that is passed over; 0: none
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.startswith("==") and (heading := _RE["heading"].fullmatch(stripped)):
            level, title = len(heading[1]), heading[2].strip()
            if not closing or level <= closing:
                closing = level if title.casefold().rstrip(":") in CLOSING else 0
                waiting = [(n, t) for n, t in waiting if n < level]
                waiting += [] if closing else [(level, title)]
            continue
        stripped = stripped.lstrip("*#:; \t")
        if closing or not stripped or stripped.startswith(("|", "{|", "!")) or stripped == "}":
            continue
        if stripped.startswith("----"):
            continue
        lines.extend(title for _, title in waiting)
        waiting = []
        lines.append(" ".join(stripped.split()) if "  " in stripped else stripped)
    return lines
