"""What sites add to Markdown: macros, directives, includes, attributes; and reStructuredText."""

import re

# MDN: the last argument that is words is what a reader sees: {{jsxref("Array.map()", "map()")}}
_MACRO = re.compile(r"\{\{[<%]?\s*([A-Za-z][\w\-]*+)\s*(?:\(([^{}\n]*)\))?\s*[%>]?\}\}")
_INLINE_MACRO = re.compile(
    r"\w*xref|html_?element|svg_?element|svgattr|mathmlelement|glossary|http(?:header|method|status)"
    r"|csp|rfc|webextapiref|event|interwiki|httpresponse\w*|bug",
    re.IGNORECASE,
)
# macros of MDN that are written without brackets; another name may be a variable of a template
_BLOCK_MACRO = re.compile(
    r"compat|specifications|\w*ref|\w*sidebar|\w*_(?:inline|header)|\w*inline|seecompattable"
    r"|availableinworkers|inheritancediagram|subpages\w*|apilist\w*|listgroups|csssyntax\w*|cssinfo|previous\w*|next\w*|listsubpages\w*"
    r"|glossarydisambiguation|quicklinks\w*|draft|experimental\w*|non-standard\w*|deprecated\w*|securecontext\w*|optional\w*"
    r"|interactiveexample|embed\w*|toc|page|jsoverviewsidebar|js_property_attributes|wasm\w*|\w*nav",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_SHORTCODE = re.compile(r"\{\{[<%]\s*/?[\w\-./]+[^{}\n]*[%>]\}\}|\{%-?\s*/?\w+[^{}\n%]*-?%\}")
# Microsoft: [!INCLUDE [name](path)], [!NOTE], [!VIDEO url], [!code-cs[Main](x.cs#1)]
_MS_MARK = re.compile(
    r"\[![A-Za-z][\w\-]*+(?:[^\[\]\n]|\[(?:[^\[\]\n]|\[[^\[\]\n]*+\])*+\](?:\([^()\n]*\))?)*+\]"
    r"(?:\([^()\n]*\))?"
)
_MS_BLOCK = re.compile(
    r":::[ \t]*(?:image|code|row|column|moniker|zone|video|no-loc|end)\b[^\n]*?(?::::|(?=\n|\Z))"
    r"|^[ \t]*:::[ \t]*$|:::[ \t]*[\w\-]+-end[ \t]*:::",
    re.MULTILINE,
)
_XREF = re.compile(r"<xref:([^<>?\s]+)[^<>\n]*>", re.IGNORECASE)
_OVERLOADS = re.compile(r"%2[Aa]|%60(?:%60)?\d+")
_ALT = re.compile(r"\b(?:alt-text|text)=\"([^\"\n]*)\"")
# kramdown and Hugo; "{:.2f}" is Python
_ATTRIBUTES = re.compile(
    r"[ \t]?\{:[ \t]*(?:[#.][A-Za-z][^{}\n]*|[\w\-]+=[^{}\n]*)\}|[ \t]\{#[\w\-]+\}(?=[ \t]*$)",
    re.MULTILINE,
)
# Jupytext cell marks, editor modes and #! lines
_CELL = re.compile(
    r"^#[ \t]?(?:%%[^\n]*|[+-][ \t]*(?:\[markdown\][^\n]*)?$|-\*-[^\n]*-\*-"
    r"|@title(?=[ \t])|@markdown(?=[ \t]))",
    re.MULTILINE,
)


def remove_dialects(text: str) -> str:
    """Macros become what they show; the rest goes."""
    # one character is found ten times as fast as two
    if "{" in text:
        if "{{" in text:
            text = _SHORTCODE.sub("", _MACRO.sub(_shown, text))
        if "{%" in text:
            text = _SHORTCODE.sub("", text)
        if "{:" in text or "{#" in text:
            text = _ATTRIBUTES.sub("", text)
    if "[" in text and "[!" in text:
        text = _MS_MARK.sub("", text)
    if "<" in text and "<xref:" in text:
        text = _XREF.sub(_name_of, text)
    if ":::" in text:
        text = _MS_BLOCK.sub(_alternative, text)
    if "#" in text and any(mark in text for mark in ("%%", "#@", "-*-", "[markdown]")):
        text = _CELL.sub("", text)
    return text


def _shown(macro: re.Match[str]) -> str:
    name, arguments = macro[1], macro[2]
    if arguments is None:
        return "" if _BLOCK_MACRO.fullmatch(name) else macro[0]
    if not _INLINE_MACRO.fullmatch(name):
        return ""
    words = [first or second for first, second in _ARGUMENT.findall(arguments)]
    shown = words[1] if len(words) > 1 and words[1].strip() else words[0] if words else arguments
    return f"RFC {shown}" if name.lower() == "rfc" else shown


def _name_of(xref: re.Match[str]) -> str:
    """`%2A` stands for all overloads, `%601` for one type parameter."""
    return _OVERLOADS.sub("", xref[1])


def _alternative(block: re.Match[str]) -> str:
    alt = _ALT.search(block[0])
    return alt[1] if alt else ""


# ".. name:: argument" with its options; the content below it stays. In notebooks that are Python
# files all this stands behind "# ".
_DIRECTIVE = re.compile(
    r"^((?:#[ \t])?[ \t]*+)\.\. (?:([\w\-]+(?::[\w\-]+)?)::(?: +([^\n]*))?"
    r"|_[^\n:]+:[^\n]*|\|[^|\n]+\| [^\n]*)$"
    r"((?:\n(?:#[ \t])?[ \t]*:[\w\-]+:[^\n]*)*+)",
    re.MULTILINE,
)
# their argument or options are words
_SPEAKING = frozenset(
    ["note", "tip", "warning", "attention", "important", "hint", "caution", "danger", "seealso"]
) | {"admonition", "rubric", "topic", "참고", "경고"}
_SHOWN_OPTION = re.compile(r":(?:header|card_description|alt):[ \t]*([^\n]+)")
# :ref:`words <target>`, :class:`~torch.nn.Module`, :math:`x^2`
_ROLE = re.compile(
    r":(?<![\w:]:)(?:[a-z]{2,12}:)?[a-z]{2,16}:`([~!]?)([^`<>\n]*(?:\n[^`<>\n]+)?)(<[^`<>\n]*>)?`"
)
# "\ " joins what the marks would part: "``Dataset``\ 을"; a particle follows or a mark is before it
_RST_JOIN = re.compile(
    r"\\ (?:(?<=[가-힣`]\\ )(?=[가-힣A-Za-z(`):,.])|(?<=[\w)(\"']\\ )(?=[가-힣`]))"
)
_RST_LINK = re.compile(r"`(?<![`\w]`)([^`<>]{0,200}?)\s*<[^`<>\s]+>`__?")


def remove_rst(text: str) -> str:
    """Directives, roles and links of reStructuredText."""
    if ".." in text and (text.startswith(".. ") or "\n.. " in text or "# .. " in text):
        text = _DIRECTIVE.sub(_words_of_directive, text)
    if "\\" in text and "\\ " in text:
        text = _RST_JOIN.sub("", text)
    if "`" not in text:
        return text
    if ":`" in text:
        text = _ROLE.sub(lambda role: role[2].strip() or (role[3] or "")[1:-1], text)
    return _RST_LINK.sub(r"\1", text) if "`_" in text else text


def _words_of_directive(directive: re.Match[str]) -> str:
    words = _SHOWN_OPTION.findall(directive[4])
    if directive[3] and (directive[2] or "").lower() in _SPEAKING:
        words = [directive[3], *words]
    return "\n".join(directive[1] + line for line in words)
