"""Files that come with electrify: the configs, the sample of text and the shipped encoder."""

from collections.abc import Callable
from glob import iglob
from pathlib import Path
from typing import Any

SHIPPED = "model/shipped/ko-modern/discriminator"
_PACKAGES = Path(__file__).parents[2]  # the checkout, or where the wheel is installed
# names in a checkout, and where the wheel has them
_FOLDERS = {
    "configs": Path("electrify/configs"),
    "pipeline/sample": Path("pipeline/sample"),
    "model/shipped": Path("model/shipped"),
}


def find_bundled(name: str) -> str:
    """A path as it is or, where nothing in the working directory has this name, of the file that
    comes with electrify under it. It may be a pattern."""
    for folder in _FOLDERS:
        rest = name.removeprefix(f"{folder}/")
        if rest != name and not _is_there(Path(), name) and _is_there(_bundled(folder), rest):
            return str(_bundled(folder) / rest)
    return name


def bundled_name(path: str) -> str:
    """The name under which `find_bundled` finds this path; any other path as it is."""
    for folder in _FOLDERS:
        if Path(path).is_relative_to(_bundled(folder)):
            return f"{folder}/{Path(path).relative_to(_bundled(folder))}"
    return path


def config_names() -> list[str]:
    """The reader's own configs and those that come with electrify, as `find_bundled` takes them."""
    folders = Path("configs"), _bundled("configs")
    return sorted({f"configs/{file.name}" for folder in folders for file in folder.glob("*.toml")})


def _bundled(folder: str) -> Path:
    path = _PACKAGES / _FOLDERS[folder]
    return path if path.is_dir() else _PACKAGES / folder  # an editable install, used elsewhere


def _is_there(root: Path, name: str) -> bool:
    return any(iglob(name, root_dir=root, recursive=True))


def with_bundled(
    value: Any, change: Callable[[str], str] = find_bundled, max_depth: int = 8
) -> Any:
    """A value of TOML in which each text is changed: by default to the path of what is bundled, or
    back by `bundled_name`. No path of a config lies deeper than `max_depth`."""
    if isinstance(value, dict) and max_depth:
        return {key: with_bundled(inner, change, max_depth - 1) for key, inner in value.items()}
    if isinstance(value, list) and max_depth:
        return [with_bundled(inner, change, max_depth - 1) for inner in value]
    return change(value) if isinstance(value, str) else value
