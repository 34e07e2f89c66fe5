"""Read a run's TOML file: strict types, `--set` overrides, size presets, errors that help.

An unknown key, a wrong type or an impossible combination fails before any work, with the key, its
value, what is allowed and the nearest known name.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from electrify.config.fields import section_of
from electrify.config.pretrain import SIZE_PRESETS, STARTS_AS_MLM, Size
from electrify.config.removed import removed_key, removed_value
from electrify.config.run import EvaluationRun, RunConfig
from electrify.storage.encodings import guess_encoding, is_utf8
from electrify.system.bundled import find_bundled, with_bundled
from electrify.system.outcome import UsageError, UserError, nearest

_Part = TypeVar("_Part", bound=BaseModel)
_SUBJECT = re.compile(r"^[A-Z][a-z]+ (?=should)")  # pydantic's: Input, String, Tuple
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def load_config(
    path: str | Path, overrides: Sequence[str] = (), options: Mapping[str, object] | None = None
) -> RunConfig:
    """Read a TOML config, apply values by dotted key and then `section.key=value` overrides, fill
    in the size preset, and check all.

    Raises `ValueError` naming file, key, value and what would be right.
    """
    raw = read_config(Path(find_bundled(str(path))))
    _override(raw, overrides, options)
    return parse_config(with_bundled(raw), str(path))


def read_config(path: Path, extended: Sequence[Path] = ()) -> dict[str, Any]:
    """A TOML config; `ValueError` if it cannot be read.

    `extends = "other.toml"`, beside it, gives the keys that it does not have. A value is replaced
    as a whole, also a list or a table. `extended` are the configs on the way here.
    """
    raw = _read_toml(path)
    if "extends" not in raw:
        return raw
    name = raw.pop("extends")
    if not isinstance(name, str):
        raise UserError(
            f"{path}: extends = {name!r} is no file name; write one, as 'ko-small.toml'"
        )
    base = Path(find_bundled(str(path.parent / name)))
    if base.resolve() in [config.resolve() for config in (*extended, path)]:
        raise UserError(f"{path}: extends = {name!r} leads back to {base}; leave one of them out")
    return _merged(read_config(base, (*extended, path)), raw)


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    sections = {
        name: base[name] | own[name]
        for name in base.keys() & own.keys()
        if isinstance(base[name], dict) and isinstance(own[name], dict)
    }
    return base | own | sections


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        encoding = guess_encoding(data)
        if not is_utf8(encoding):
            raise UserError(f"{path} is text in {encoding}, and TOML is UTF-8: save it as UTF-8")
        return tomllib.loads(data.decode("utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"no config at {path}; see `electrify ls` for those at hand") from None
    except IsADirectoryError:
        raise UserError(
            f"{path} is a folder: give the TOML file of the run; `electrify ls` lists those at hand"
        ) from None
    except UserError:
        raise
    except (ValueError, RecursionError) as error:  # other bytes, too many digits, too deep
        raise UserError(f"{path} is not valid TOML: {error}") from None


def parse_config(raw: dict[str, Any], where: str = "config") -> RunConfig:
    """Check a config given as a dictionary (as TOML reads it).

    `pretrain.model_fields_set` has what the config gives, without what its size fills in.
    """
    config = parse_part(_with_size_preset(raw), where, RunConfig)
    config.pretrain.model_fields_set.intersection_update(raw.get("pretrain", {}))
    return config


# what an encoder from elsewhere is scored with unless `--set` says otherwise: few seeds, no
# random initialisation, the data of the hub
_OF_ANY_ENCODER = {
    "seeds": [0, 1, 2],
    "random_init_control": False,
    "bag_of_words": True,
    "data_dir": "hub",
}


def evaluation_of(
    model: str, overrides: Sequence[str], options: Mapping[str, object] | None = None
) -> EvaluationRun:
    """What `electrify evaluate --model` does without a config: results go to `out/<model>/`.

    `model` is a folder or hub name. The last two components of a path name the results; the path of
    an export names them by its run, too. `overrides` and `options` are as in `load_config`.
    """
    parts = [part for part in model.lower().split("/") if part.strip(".~")]
    parts = parts[-3 if parts[-2:-1] == ["export"] else -2 :]
    name = re.sub(r"[^a-z0-9._-]+", "-", "-".join(parts)).strip("._-") or "model"
    raw: dict[str, Any] = {
        "name": name,
        "output_dir": f"out/{name}",
        "evaluate": dict(_OF_ANY_ENCODER),
    }
    _override(raw, overrides, options)
    return parse_part(with_bundled(raw), f"--model {model}", EvaluationRun)


def parse_part(raw: Any, where: str, kind: type[_Part]) -> _Part:
    """Check a value as a whole config or a section of it; `ValueError` names what is wrong."""
    try:
        text = json.dumps(raw, default=_refuse)
        # JSON mode: strict types, but a list still becomes a tuple
        return kind.model_validate_json(text)
    except RecursionError:
        raise UserError(f"{where}: its tables are nested too deeply") from None
    except ValidationError as error:
        errors = error.errors()
        found = [_explain(e, kind) for e in errors if not _is_of_another(e, errors)]
        begun = dict[str, str]()  # of a value with several types each is one error
        for line in found:
            begin, _, expected = line.rpartition(": it should be ")
            begun[begin or line] = f"{begun[begin]} or {expected}" if begin in begun else line
        problems = [f"  {line}" for line in begun.values()]
        raise UserError("\n".join([f"{where}: {len(problems)} problem(s)", *problems])) from None
    except ValueError as error:  # of `_refuse`
        raise UserError(f"{where}: {error}") from None


def _refuse(value: object) -> None:
    kind = type(value).__name__
    raise UserError(f"{value!r}: a config has no value of type {kind}; write text in quotes")


def _with_size_preset(raw: dict[str, Any]) -> dict[str, Any]:
    """Fill what a size implies; a value given in the config wins."""
    pretrain = raw.get("pretrain", {})
    if not isinstance(pretrain, dict):
        return raw  # the validator says what is wrong
    size = pretrain.get("size", "small")
    if size not in get_args(Size):  # the validator says so
        size = "small"
    preset = SIZE_PRESETS[size]
    if pretrain.get("initial_model"):  # it has learnt what a warm-up and high rates are for
        preset = preset | {"mlm_steps_fraction": 0.0, "decay_fraction": 1.0}
        # without correction Adam's first hundreds of updates are up to seven times as large
        preset["optimizer"] = "bias-corrected"
    if pretrain.get("objective", "electra") not in STARTS_AS_MLM:
        preset = preset | {"mlm_steps_fraction": 0.0}
    return raw | {"pretrain": preset | pretrain}


def _override(
    raw: dict[str, Any], overrides: Sequence[str], options: Mapping[str, object] | None
) -> None:
    for key, value in (options or {}).items():
        _put(raw, key.split("."), value, key)
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key:
            raise UsageError(f"override {override!r}: write section.key=value")
        _put(raw, _key_parts(key), _override_value(key, text), override)


def _override_value(key: str, text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:  # not TOML, too many digits, too deep
        is_toml = text.lstrip().startswith(("[", "{", '"', "'"))
        if isinstance(error, tomllib.TOMLDecodeError) and not is_toml:
            return text  # a bare word is a string
        raise UsageError(
            f"override {key}={text}: it is not valid TOML ({error}); write words in it in quotes, "
            f'as in `{key}=["word", "word"]`'
        ) from None


def _put(raw: dict[str, Any], key: Sequence[str], value: object, override: str) -> None:
    table = raw
    for section in key[:-1]:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise UsageError(f"override {override!r}: {section} is not a section")
    table[key[-1]] = value


def _key_parts(key: str) -> list[str]:
    """Of a dotted key as TOML writes it: a part may stand in quotes."""
    try:
        nested: Any = tomllib.loads(f"{key} = 0")
    except (ValueError, RecursionError):
        raise UsageError(f"override {key}: write section.key=value") from None
    parts = []
    while isinstance(nested, dict):
        part, nested = next(iter(nested.items()))
        parts.append(part)
    return parts


def _is_of_another(error: Any, errors: Sequence[Any]) -> bool:
    """Whether the error only follows from another one: wrong entries leave a list too short."""
    location = error["loc"]
    lacks_entries = error["type"] == "too_short" and any(
        other["loc"][: len(location)] == location != other["loc"] for other in errors
    )
    return lacks_entries or error["type"] == "default_factory_not_called"


def _explain(error: Any, kind: type[BaseModel]) -> str:
    """One pydantic error of a model as a line: key, value, what is allowed, nearest name."""
    location = list(error["loc"])
    key, value = ".".join(str(part) for part in location), error.get("input")
    if error["type"] == "extra_forbidden":
        if advice := removed_key(location, kind):
            return f"{key} is gone: {advice}"
        name = str(location[-1])
        elsewhere = " or ".join(_keys_named(name, kind))
        hint = f"; did you mean {elsewhere}?" if elsewhere else ""
        hint = hint or nearest(name, _known_keys(location[:-1], kind))
        return f"unknown key {key} = {value!r}{hint}"
    if error["type"] == "missing":
        return f"{key} is missing"
    location = [part for part in location if not _is_of_pydantic(part)]
    key = ".".join(map(str, location))
    if advice := removed_value(location, value, kind):
        return f"{key} = {toml_value(value)} is gone: {advice}"
    if error["type"] == "value_error":
        prefix = f"{key}: " if key else ""
        return f"{prefix}{error['msg'].removeprefix('Value error, ')}"
    hint = ""
    if error["type"] == "literal_error":
        allowed = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        hint = nearest(str(value), allowed)
    return f"{key} = {toml_value(value)}: it {_SUBJECT.sub('', error['msg'])}{hint}"


def _is_of_pydantic(part: str | int) -> bool:
    """Whether a part of an error's location is no key, but pydantic's name of a type."""
    kinds = "tuple[", "literal[", "constrained-"
    return part in ("str", "bool", "[key]") or str(part).startswith(kinds)


def _keys_named(name: str, model: type[BaseModel], prefix: str = "") -> list[str]:
    """The keys of this name, outside any section and in each, as `--set` takes them."""
    keys = [f"{prefix}{name}"] if name in model.model_fields else []
    for section, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            keys += _keys_named(name, kind, f"{prefix}{section}.")
    return keys


def _known_keys(location: Sequence[str | int], model: type[BaseModel]) -> list[str]:
    for part in location:
        if part not in model.model_fields:  # a position in a list, or a name that the user chose
            continue
        model = section_of(model.model_fields[part].annotation) or model
    return sorted(model.model_fields)


def flatten(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """(key, value) pairs of nested tables, keys as `--set` takes them; of a list of tables each."""
    if isinstance(value, dict):
        return [
            pair
            for key, inner in value.items()
            for pair in flatten(inner, f"{prefix}.{toml_key(key)}" if prefix else toml_key(key))
        ]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [pair for i, inner in enumerate(value) for pair in flatten(inner, f"{prefix}[{i}]")]
    return [(prefix, value)]


def toml_value(value: Any) -> str:
    """A JSON value as TOML, as `--set` takes it. TOML has no null: such keys of a table are left
    out."""
    if isinstance(value, dict):
        pairs = (f"{toml_key(key)} = {toml_value(v)}" for key, v in value.items() if v is not None)
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return _json(value)


def toml_key(key: str) -> str:
    """One part of a dotted key: in quotes where it has to be."""
    return key if _BARE_KEY.fullmatch(key) else _json(key)


def _json(value: Any) -> str:
    # JSON's strings, numbers, true and false are TOML's, but for DEL in a string
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
