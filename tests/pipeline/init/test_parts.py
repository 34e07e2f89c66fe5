"""Each file is named once, by a path that names no file with other options."""

import random
from pathlib import Path

import pytest

from electrify.config.clean import Source
from pipeline.init.survey import split
from pipeline.sources.files import expand_sources
from tests.pipeline.sources.reading import write_files, write_zip

WORDS = ("ru", "de", "ru_1", "de_2", "[a]", "a.b", "x*", "10", "11")


def _tree(rng, root, is_archive):
    """Files in folders, or in archives, and what they are: by folder, by name or by chance."""
    names: dict[str, str] = {}
    by = rng.choice(["folder", "name", "chance"])
    for _ in range(rng.randint(2, 24)):
        depth = rng.choice([0, 0, 1, 2])
        folders = [rng.choice(WORDS) for _ in range(depth)]
        name = f"{rng.choice(WORDS)}{rng.choice(['', '0', '1', '-2'])}.txt"
        kind = {"folder": (folders or ["top"])[0], "name": name[:2], "chance": rng.choice("ab")}[by]
        names["/".join([*folders, name])] = kind
    of_path: dict[Path, str] = {}
    for name, kind in names.items():
        if is_archive:
            archive = root / f"{kind[0] if by == 'chance' else 'z'}.zip"
            path = Path(f"{write_zip(archive, {name: 'text'})}::{name}")
        else:
            path = write_files(root, {name: "text"}) / name
        of_path[path] = kind
    return dict(sorted(of_path.items()))


@pytest.mark.parametrize("is_archive", [False, True], ids=["folder", "archive"])
@pytest.mark.parametrize("seed", range(12))
def test_parts_are_read_by_their_paths_and_agree(tmp_path, seed, is_archive):
    rng = random.Random(seed)
    of_path = _tree(rng, tmp_path, is_archive)
    known = {path: of for path, of in of_path.items() if seed % 2 or rng.random() < 0.7}
    parts = split(tmp_path, ".txt", list(of_path), known)
    read: list[str] = []
    for part in parts:
        files = expand_sources([Source(kind="text", language="en", path=part.path)])
        assert sorted(file.path for file in files) == sorted(map(str, part.files))
        assert len({known[path] for path in part.files if path in known}) <= 1
        read += (file.path for file in files)
    assert sorted(read) == sorted(map(str, of_path))
