"""Links, images, reference definitions and footnotes of Markdown to their words."""

import re

# text of a link: at most one pair of brackets in it
_LINK = re.compile(
    r"(?:!\[|\[)((?:[^\[\]]|\[[^\[\]\n]{0,100}\]){0,400}+)\]"
    r"\([ \t]*(<[^<>\n]*>|[^\s()<>]*+(?:\([^\s()]*+\)[^\s()<>]*+)*+)"
    r"([ \t\n]+(?:\"[^\"]{0,500}\"|'[^']{0,500}'))?[ \t]*\)"
)
_DESTINATION = re.compile(r"[./#:]|^<|^$")
_CALL = re.compile(r"[A-Za-z0-9_)\]]")


def remove_links(text: str) -> str:
    """Links and images to their words; "a[i](x)" is a call."""
    while "](" in text and (changed := _LINK.sub(_words, text)) != text:
        text = changed  # an image may stand in a link
    return text


def _words(link: re.Match[str]) -> str:
    label, start = link[1], link.start()
    if link[0][0] == "!" or link[3]:
        return label
    if not _DESTINATION.search(link[2]) or not (label or link[2]):
        return link[0]
    before = link.string[start - 1] if start else ""
    if _CALL.match(before) and label.isascii() and " " not in label:
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
    if "]:" not in text:
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
