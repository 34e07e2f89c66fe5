"""The page docs/config.md: every key of a config, as the models have it.

    python -m electrify.config.reference > docs/config.md

A section's text is the docstring of its model, a key's meaning the docstring below the field.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from inspect import getdoc
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from electrify.config.load import toml_value
from electrify.config.names import check_language
from electrify.config.pretrain import SIZE_PRESETS
from electrify.config.run import RunConfig
from electrify.config.section import Section
from electrify.config.tasks import PROBE_SUITES, SUITE_TASKS, check_suite, check_task

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

`pretrain.size` fills in these keys, with the values of the ELECTRA paper. A value in the config
goes before them.
"""
_FILLED = {
    "pretrain",
    *(f"pretrain.{key}" for key in SIZE_PRESETS["small"]),
}
# a table by names shows one name
_EXAMPLES = {"clean.language": "ko", "evaluate.tasks_options": '"klue-sts"'}
_NAMES: dict[Any, str] = {
    check_language: "language code (ISO 639)",
    check_suite: ", ".join(f'`"{suite}"`' for suite in (*SUITE_TASKS, *PROBE_SUITES)),
    check_task: "task name",
}
_PLAIN = {bool: "true or false", str: "text", int: "integer", float: "number"}
_LIMITS = {Ge: "at least", Gt: "above", Le: "at most", Lt: "below"}
_ENDLESS = 2**63  # a limit that only keeps integers within 64 bits


@dataclass(frozen=True)
class _Part:
    """A section of the page: a model and where it stands in the TOML."""

    path: str
    model: type[Section]
    above: "_Part | None"

    @property
    def title(self) -> str:
        return f"`[{self.path}]`" if self.path else "Top of the file"

    @property
    def link(self) -> str:
        anchor = "".join(letter for letter in self.path if letter.isalnum() or letter in "-_")
        return f"[{self.title}](#{anchor})"


def reference() -> str:
    """The page as Markdown."""
    parts: dict[type[Section], _Part] = {}
    for part in _walk(_Part("", RunConfig, None)):
        if part.model not in parts or part.path.count(".") < parts[part.model].path.count("."):
            parts[part.model] = part
    tables = [_table(part, parts) for part in parts.values()]
    return "\n".join([_HEAD, *tables, _SIZES, _size_table()])


def _walk(part: _Part) -> Iterator[_Part]:
    yield part
    for name, field in _fields(part.model).items():
        if inner := _model_of(field.annotation):
            path = f"{part.path}.{name}".removeprefix(".")
            yield from _walk(_Part(".".join([path, *_example(path)]), inner, part))


def _fields(model: type[Section]) -> dict[str, FieldInfo]:
    """Plain keys before sections, and a model's own before those that it inherits."""

    def order(item: tuple[str, FieldInfo]) -> tuple[bool, bool]:
        return _model_of(item[1].annotation) is not None, item[0] not in model.__annotations__

    return dict(sorted(model.model_fields.items(), key=order))


def _example(path: str) -> list[str]:
    return [_EXAMPLES[path]] if path in _EXAMPLES else []


def _model_of(kind: Any) -> type[Section] | None:
    """The model that a field holds, by itself, in a list or in a table."""
    if isinstance(kind, type) and issubclass(kind, Section):
        return kind
    return next((found for part in get_args(kind) if (found := _model_of(part))), None)


def _table(part: _Part, parts: dict[type[Section], _Part]) -> str:
    rows = [
        f"| `{name}` | {_value(field.annotation, field.metadata)} | "
        f"{_default(f'{part.path}.{name}'.removeprefix('.'), field)} | "
        f"{_meaning(part, name, field, parts)} |"
        for name, field in _fields(part.model).items()
    ]
    level = "#" * (2 + min(part.path.count("."), 1))
    head = [f"{level} {part.title}", "", getdoc(part.model) or "", ""]
    return "\n".join([*head, "| key | value | default | meaning |", "|---|---|---|---|", *rows, ""])


def _meaning(part: _Part, name: str, field: FieldInfo, parts: dict[type[Section], _Part]) -> str:
    """What stands below the field; a key that the section above has too points there."""
    if inner := _model_of(field.annotation):
        return f"See {parts[inner].link}."
    over = part.above.model.model_fields.get(name) if part.above else None
    if part.above and over and field.description in (None, over.description):
        return f"As `{name}` of {part.above.link}."
    assert field.description, f"{part.path}.{name} has no docstring below it in electrify/config/"
    return " ".join(field.description.split())


def _value(kind: Any, metadata: Any) -> str:
    """What a key may be given."""
    if _model_of(kind):
        return {tuple: "list of sections", dict: "sections by name"}.get(
            get_origin(kind), "section"
        )
    limits: dict[type, str] = {}
    for part in _flat(metadata):
        if isinstance(part, AfterValidator):
            return _NAMES.get(part.func, "text")
        if type(part) in _LIMITS and (limit := astuple(part)[0]) < _ENDLESS:
            limits[type(part)] = f"{int(limit):,}" if limit == int(limit) else f"{limit:g}"
    if Ge in limits and Le in limits:
        return f"{_kind(kind)}, {limits[Ge]} to {limits[Le]}"
    said = ", ".join(f"{_LIMITS[limit]} {number}" for limit, number in limits.items())
    return f"{_kind(kind)} {said}".strip()


def _flat(metadata: Any) -> Iterator[Any]:
    """Limits, those inside a `Field` too."""
    for part in metadata:
        yield from _flat(part.metadata) if isinstance(part, FieldInfo) else (part,)


def _kind(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _value(parts[0], parts[1:])
    if origin is Literal:
        return ", ".join(f'`"{name}"`' for name in parts)
    if origin in (Union, UnionType):
        return " or ".join(_kind(part) for part in parts if part is not NoneType)
    if origin is tuple:
        return f"list of: {_kind(parts[0])}"
    if origin is dict:
        return f"table of: {_kind(parts[1])}"
    return _PLAIN[kind]


def _default(path: str, field: FieldInfo) -> str:
    if path in _FILLED:
        return "by size"
    if field.is_required():
        return "required"
    if field.default_factory or field.default is None or _model_of(field.annotation):
        return "–"
    if path.startswith("clean.language."):  # as [clean] has it
        return "–"
    return f"`{toml_value(field.default)}`"


def _size_table() -> str:
    sizes = ("small", "small++", "base", "large")
    rows = {
        f"pretrain.{key}": [SIZE_PRESETS[size][key] for size in sizes]
        for key in SIZE_PRESETS["small"]
    }
    lines = [
        f"| `{key}` | "
        + " | ".join(
            f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" for value in values
        )
        + " |"
        for key, values in rows.items()
    ]
    return "\n".join([f"| key | {' | '.join(sizes)} |", "|---|---|---|---|---|", *lines, ""])


if __name__ == "__main__":
    print(reference(), end="")
