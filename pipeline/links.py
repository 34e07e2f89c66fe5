"""Links, images, reference definitions and footnotes of Markdown to their words."""

import re

# text of a link: at most one pair of brackets in it
_LINK = re.compile(
    r"(?:!\[|\[)((?:[^\[\]]|\[[^\[\]\n]{0,100}\]){0,400}+)\]"
    r"\([ \t]*(<[^<>\n]*>|[^\s()<>]*+(?:\([^\s()]*+\)[^\s()<>]*+)*+)"
    r"([ \t\n]+(?:\"[^\"]{0,500}\"|'[^']{0,500}'))?[ \t]*\)"
)
# as _LINK, but long: of a picture told to the blind, or with quotes in the quoted title
_PICTURE = re.compile(
    r"!\[([^\[\]]{0,2000}+)\]\([ \t]*[^\s()<>]++(?<=[.](?:png|gif|jpg|svg))"
    r"(?:[ \t]+\"[^\n]{0,400}?\")?\)"
)
_DESTINATION = re.compile(r"[./#:]|^[<?]|^$")
_FILE_NAME = re.compile(r"[A-Za-z0-9]+[_\-][A-Za-z0-9_\-]+")  # of a file beside, without its ending
_CALL = re.compile(r"[A-Za-z0-9_)\]]")
_PATH = ("../", "./", "/", "#", "http")


def remove_links(text: str) -> str:
    """Links and images to their words; "a[i](x)" is a call."""
    while "[" in text and "](" in text and (changed := _LINK.sub(_words, text)) != text:
        text = changed  # an image may stand in a link
    if "![" in text:
        text = _PICTURE.sub(r"\1", text)
    return text


def _words(link: re.Match[str]) -> str:
    label, start = link[1], link.start()
    if link[0][0] == "!" or link[3]:
        return label
    if not _DESTINATION.search(link[2]) or not (label or link[2]):
        is_file = not label.isascii() and _FILE_NAME.fullmatch(link[2])
        return label if is_file else link[0]
    before = link.string[start - 1] if start else ""
    is_word = label.isascii() and " " not in label
    if _CALL.match(before) and is_word and not link[2].startswith(_PATH):
        return link[0]  # f[0](x.y)
    return label


_DEFINITION = re.compile(
    r"^[ \t]*+\[([^\^\[\]\n][^\[\]\n]{0,200})\]:[ \t]*+(?:<[^<>\n]*>|[^\s<>]*[./#][^\s<>]*)"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*$\n?",
    re.MULTILINE,
)
_FOOTNOTE = re.compile(r"^[ \t]*+\[\^([\w\-]{1,40})\]:[ \t]*", re.MULTILINE)
_FOOTNOTE_MARK = re.compile(r"\[\^([\w\-]{1,40})\]")
_BY_REFERENCE = re.compile(r"(?:!\[|\[)([^\[\]\n]{1,300}+)\](?:\[([^\[\]\n]{0,200}+)\])?")


def remove_references(text: str) -> str:
    """Definitions, and the brackets of what they define: "a[i][j]" defines nothing and stays."""
    if "[" not in text or "]:" not in text:
        return text
    names = {name.lower() for name in _DEFINITION.findall(text)}
    if names:
        text = _DEFINITION.sub("", text)

        def words(link: re.Match[str]) -> str:
            return link[1] if (link[2] or link[1]).lower() in names else link[0]

        text = _BY_REFERENCE.sub(words, text)
    notes = set(_FOOTNOTE.findall(text))
    if notes:
        text = _FOOTNOTE.sub("", text)
        text = _FOOTNOTE_MARK.sub(lambda mark: "" if mark[1] in notes else mark[0], text)
    return text
