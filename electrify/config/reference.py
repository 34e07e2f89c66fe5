"""The page docs/config.md: every key of a config, by the JSON schema of the models.

    python -m electrify.config.reference > docs/config.md

A section's text is the docstring of its model, a key's meaning the docstring below the field.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from electrify.config.load import toml_value
from electrify.config.pretrain import SIZE_PRESETS, SIZES
from electrify.config.run import RunConfig

_HEAD = """\
# Every key of a config

A run is one TOML file. This page lists its sections and keys. It is made from the models in
`electrify/config/` by `python -m electrify.config.reference > docs/config.md`.

`extends = "other.toml"` takes every key that the config lacks from another one beside it.
`--set section.key=value` overrides a key on the command line. `electrify validate CONFIG` prints
every key of a config with its value. A key that is unknown, has a wrong type or does not fit the
others is refused before any work.

In the column *default*, *required* means that the key must be given, *by size* that the
[size](#sizes) gives it, and – that it may be left out.
"""
_SIZES = """\
## Sizes

`pretrain.size` fills in these keys: `small` to `large` with the values of the ELECTRA paper. A
value in the config goes before them.
"""
_FILLED = {"pretrain", *(f"pretrain.{key}" for key in SIZE_PRESETS["small"])}
# a table by names shows one name
_EXAMPLES = {"clean.language": ".ko", "evaluate.tasks_options": '."klue-sts"'}
_PLAIN = {"boolean": "true or false", "string": "text", "integer": "integer", "number": "number"}
_LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_ENDLESS = 2**63  # a limit that only keeps integers within 64 bits
_Schema = dict[str, Any]


@dataclass(frozen=True)
class _Part:
    """A section of the page: where it stands in the TOML, and the schema of its model."""

    path: str
    model: str
    schema: _Schema
    above: "_Part | None" = None

    @property
    def title(self) -> str:
        return f"`[{self.path}]`" if self.path else "Top of the file"

    @property
    def link(self) -> str:
        anchor = "".join(letter for letter in self.path if letter.isalnum() or letter in "-_")
        return f"[{self.title}](#{anchor})"

    @property
    def keys(self) -> dict[str, _Schema]:
        """Plain keys before sections, and these in the order of a run."""
        properties: dict[str, _Schema] = self.schema["properties"]

        def place(key: str) -> tuple[bool, bool]:
            return _model_of(properties[key]) != "", key in ("export", "evaluate")

        return {key: properties[key] for key in sorted(properties, key=place)}

    def path_of(self, key: str) -> str:
        return f"{self.path}.{key}".removeprefix(".")


def reference() -> str:
    """The page as Markdown."""
    schema = RunConfig.model_json_schema()
    parts: dict[str, _Part] = {}
    for part in _walk(_Part("", "RunConfig", schema), schema["$defs"]):
        if part.model not in parts or part.path.count(".") < parts[part.model].path.count("."):
            parts[part.model] = part
    tables = [_table(part, parts) for part in parts.values()]
    return "\n".join([_HEAD, *tables, _SIZES, _size_table()])


def _walk(part: _Part, models: dict[str, _Schema]) -> Iterator[_Part]:
    yield part
    for key, field in part.keys.items():
        if inner := _model_of(field):
            path = part.path_of(key)
            path += _EXAMPLES.get(path, "")
            yield from _walk(_Part(path, inner, models[inner], part), models)


def _model_of(field: _Schema) -> str:
    """The model that a field holds, by itself, in a list or in a table; empty if none."""
    if "$ref" in field:
        return str(field["$ref"].rpartition("/")[2])
    inner = [*field.get("anyOf", ()), field.get("items"), field.get("additionalProperties")]
    return next((name for of in inner if isinstance(of, dict) and (name := _model_of(of))), "")


def _table(part: _Part, parts: dict[str, _Part]) -> str:
    """The section: its keys as rows, and in a sentence those that the section above has too."""
    above = part.above.keys if part.above else {}
    same = [key for key, field in part.keys.items() if _is_same(field, above.get(key))]
    level = "#" * (2 + min(part.path.count("."), 1))
    lines = [f"{level} {part.title}", "", part.schema.get("description", ""), ""]
    if part.above and same:
        lines += [f"Keys as in {part.above.link}: {', '.join(f'`{key}`' for key in same)}.", ""]
    if rows := [_row(part, key, parts) for key in part.keys if key not in same]:
        lines += ["| key | value | default | meaning |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _is_same(field: _Schema, above: _Schema | None) -> bool:
    if above is None or _model_of(field):
        return False
    return field.get("description") in (None, above.get("description"))


def _row(part: _Part, key: str, parts: dict[str, _Part]) -> str:
    field = part.keys[key]
    inner = _model_of(field)
    meaning = f"See {parts[inner].link}." if inner else field.get("description")
    assert meaning, f"{part.path_of(key)} has no docstring below it in electrify/config/"
    cells = f"`{key}`", _value(field), _default(part, key, field), " ".join(meaning.split())
    return f"| {' | '.join(cells)} |"


def _value(field: _Schema) -> str:
    """What a key may be given."""
    kind = str(field.get("type"))
    if _model_of(field):
        return {"array": "list of sections", "object": "sections by name"}.get(kind, "section")
    if kinds := field.get("anyOf"):
        return " or ".join(_value(of) for of in kinds if of.get("type") != "null")
    if names := field.get("enum") or ([field["const"]] if "const" in field else []):
        return ", ".join(f"`{toml_value(name)}`" for name in names)
    if kind == "array":
        return f"list of: {_value(field['items'])}"
    if kind == "object":
        return f"table of: {_value(field['additionalProperties'])}"
    limits = [
        f"{word} {limit:,.0f}" if limit == int(limit) else f"{word} {limit:g}"
        for name, word in _LIMITS.items()
        if (limit := field.get(name, _ENDLESS)) < _ENDLESS
    ]
    return f"{_PLAIN[kind]} {', '.join(limits)}".strip()


def _default(part: _Part, key: str, field: _Schema) -> str:
    if part.path_of(key) in _FILLED:
        return "by size"
    if key in part.schema.get("required", ()):
        return "required"
    value = field.get("default")
    if value is None or _model_of(field):
        return "–"
    return f"`{toml_value(value)}`"


def _size_table() -> str:
    rows = [
        f"| `pretrain.{key}` | {' | '.join(map(_size_value, values))} |"
        for key, values in SIZES.items()
    ]
    rule = "|---" * (len(SIZE_PRESETS) + 1) + "|"
    return "\n".join([f"| key | {' | '.join(SIZE_PRESETS)} |", rule, *rows, ""])


def _size_value(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


if __name__ == "__main__":
    print(reference(), end="")
