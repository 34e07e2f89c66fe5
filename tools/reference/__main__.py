"""The page docs/config.md: every key of a config, by the JSON schema of the models.

    python -m tools.reference > docs/config.md

A section's text is the docstring of its model, a key's meaning the docstring below the field; the
rest of the page is in config.md.jinja, the order of many keys in groups.toml.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from electrify.config.load import toml_value
from electrify.config.pretrain import SIZE_PRESETS, SIZES
from electrify.config.run import RunConfig
from pipeline.rules.quality import limits_for

_GROUPS = tomllib.loads(Path(__file__).with_name("groups.toml").read_text(encoding="utf-8"))
# columns of the table of limits
_PROFILES = [("web", language) for language in ("ko", "en", "ja", "zh")] + [("comments", "ko")]
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

    @property
    def same(self) -> list[str]:
        """The keys that the section above has too, with the same meaning."""
        above = self.above.keys if self.above else {}
        return [
            key
            for key, field in self.keys.items()
            if key in above
            and not _model_of(field)
            and field.get("description") in (None, above[key].get("description"))
        ]

    @property
    def groups(self) -> dict[str, list[str]]:
        """The keys that the section above lacks, by title; a section without groups has one."""
        own = [key for key in self.keys if key not in self.same]
        groups: dict[str, list[str]] = _GROUPS.get(self.path, {"": own})
        grouped = [key for keys in groups.values() for key in keys]
        assert sorted(grouped) == sorted(own), f"groups.toml: {set(grouped) ^ set(own)}"
        return groups

    def path_of(self, key: str) -> str:
        return f"{self.path}.{key}".removeprefix(".")


def reference() -> str:
    """The page as Markdown."""
    schema = RunConfig.model_json_schema()
    parts: dict[str, _Part] = {}
    for part in _walk(_Part("", "RunConfig", schema), schema["$defs"]):
        if part.model not in parts or part.path.count(".") < parts[part.model].path.count("."):
            parts[part.model] = part

    def meaning(part: _Part, key: str) -> str:
        inner = _model_of(part.keys[key])
        text = f"See {parts[inner].link}." if inner else part.keys[key].get("description")
        assert text, f"{part.path_of(key)} has no docstring below it in electrify/config/"
        return " ".join(text.split()).replace("|", "\\|")

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["size_value"] = _size_value
    return environment.get_template("config.md.jinja").render(
        parts=parts.values(),
        value=_value,
        default=_default,
        meaning=meaning,
        presets=list(SIZE_PRESETS),
        sizes=SIZES,
        profiles=[f"{profile}, {language}" for profile, language in _PROFILES],
        limits=_limits(),
    )


def _limits() -> dict[str, list[str]]:
    """What each profile and language sets, by name of the limit."""
    columns = [limits_for(language, profile).model_dump() for profile, language in _PROFILES]
    return {
        name: ["–" if column[name] is None else f"{column[name]:g}" for column in columns]
        for name in columns[0]
    }


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
    return next(
        (name for item in inner if isinstance(item, dict) and (name := _model_of(item))), ""
    )


def _value(field: _Schema) -> str:
    """What a key may be given."""
    kind = str(field.get("type"))
    if _model_of(field):
        return {"array": "list of sections", "object": "sections by name"}.get(kind, "section")
    if kinds := field.get("anyOf"):
        return " or ".join(_value(item) for item in kinds if item.get("type") != "null")
    if names := field.get("enum") or ([field["const"]] if "const" in field else []):
        return ", ".join(f"`{toml_value(name)}`" for name in names)
    if kind == "array":
        items = field.get("items") or field["prefixItems"][0]
        return f"list of: {_value(items)}"
    if kind == "object":
        return f"table of: {_value(field['additionalProperties'])}"
    limits = [
        f"{word} {limit:,.0f}" if limit == int(limit) else f"{word} {limit:g}"
        for name, word in _LIMITS.items()
        if (limit := field.get(name, _ENDLESS)) < _ENDLESS
    ]
    return f"{_PLAIN[kind]} {', '.join(limits)}".strip()


def _default(part: _Part, key: str) -> str:
    if part.path_of(key) in _FILLED:
        return "by size"
    if key in part.schema.get("required", ()):
        return "required"
    value = part.keys[key].get("default")
    if value is None or _model_of(part.keys[key]):
        return "–"
    return f"`{toml_value(value)}`"


def _size_value(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


if __name__ == "__main__":
    print(reference(), end="")
