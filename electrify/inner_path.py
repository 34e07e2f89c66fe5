"""Names of files that a file gives: they may not lead out of its folder."""

from pathlib import Path, PurePosixPath


def inner_path(folder: Path, name: object) -> Path:
    """The path of a file below `folder`; `ValueError` for a name that leads elsewhere."""
    inside = PurePosixPath(name) if isinstance(name, str) else None
    if inside is None or not inside.parts or inside.is_absolute() or ".." in inside.parts:
        raise ValueError(f"{name!r} is no name of a file in {folder}")
    if "\0" in str(inside):
        raise ValueError(f"{name!r} is no name of a file")
    return folder / inside
