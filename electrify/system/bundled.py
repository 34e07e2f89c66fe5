"""Files that come with electrify: the configs, the sample of text and the shipped encoder."""

from pathlib import Path
from typing import Any

_PACKAGES = Path(__file__).parents[2]  # the checkout, or where the wheel is installed
# names in a checkout, and where the wheel has them
_PLACES = {
    "configs": Path("electrify/configs"),
    "pipeline/sample": Path("pipeline/sample"),
    "model/shipped": Path("model/shipped"),
}


def find_bundled(name: str) -> str:
    """A path as it is or, where its folder is not below the working directory, of the file that
    comes with electrify under this name. It may be a pattern."""
    for folder, place in _PLACES.items():
        if name.startswith(f"{folder}/") and not Path(folder).is_dir():
            bundled = _PACKAGES / place
            if not bundled.is_dir():  # an editable install, used elsewhere
                bundled = _PACKAGES / folder
            if bundled.is_dir():
                return str(bundled / name.removeprefix(f"{folder}/"))
    return name


def with_bundled(value: Any, max_depth: int = 8) -> Any:
    """A value of TOML in which each text is a path that `find_bundled` finds, or stays as it is.
    No path of a config lies deeper than `max_depth`."""
    if isinstance(value, dict) and max_depth:
        return {key: with_bundled(inner, max_depth - 1) for key, inner in value.items()}
    if isinstance(value, list) and max_depth:
        return [with_bundled(inner, max_depth - 1) for inner in value]
    return find_bundled(value) if isinstance(value, str) else value
