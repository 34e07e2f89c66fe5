"""A data set of the hub as a task of the user's own: its splits as files in the cache."""

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.tasks.files import SUFFIXES
from electrify.stage.folder import whole_file
from electrify.storage.hub import hub_failure, load_splits
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn

_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+(:[\w.-]+)?")
_SPLITS = {"train": "train", "validation": "dev", "valid": "dev", "dev": "dev", "test": "test"}


def is_on_hub(name: str) -> bool:
    """Whether this is `ORG/NAME` or `ORG/NAME:CONFIG` of the hub, and no file here."""
    path = Path(name)
    is_file = path.exists() or path.suffix in SUFFIXES or path.suffix[1:].isalpha()
    return bool(_NAME.fullmatch(name)) and not is_file


@cache  # of one commit in all of a run
def files_on_hub(name: str) -> dict[str, Path]:
    """The file of each split, at the commit that is there now; where the hub does not answer, those
    that were read last.

    `UserError` where the data set cannot be read, or has no split to learn from.
    """
    path, _, config = name.partition(":")
    datasets: Any = importlib.import_module("datasets")  # slow to import, and seldom wanted
    hub: Any = importlib.import_module("huggingface_hub")
    cache = Path(datasets.config.HF_DATASETS_CACHE) / "electrify"
    label = name.replace("/", "--").replace(":", "--")
    try:
        commit = hub.HfApi().dataset_info(path, revision="main").sha
        splits = load_splits(path, config or None, commit)
    except Exception as error:  # of HTTP, Arrow or `datasets`, which has classes of its own
        failure = hub_failure(error)
        earlier = sorted(cache.glob(f"{label}@*"), key=lambda folder: folder.stat().st_mtime)
        if not earlier:
            raise UserError(f"own task {name}: `datasets` cannot read it: {failure}") from error
        warn(f"own task {name}: {failure}; what was read last is taken, {earlier[-1]}")
        return {path.stem: path for path in earlier[-1].glob("*.parquet")}
    log(f"own task {name}: commit {commit}")
    ours = {_SPLITS[split]: rows for split, rows in splits.items() if split in _SPLITS}
    if "train" not in ours:
        raise UserError(
            f"own task {name}: it has the splits {', '.join(splits)}, and none is called train; "
            "save the rows as files and give those"
        )
    folder, files = cache / f"{label}@{commit[:12]}", {}
    for split, rows in ours.items():
        files[split] = folder / f"{split}.parquet"
        if not files[split].exists():
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(files[split]) as temporary:
                rows.to_parquet(str(temporary))
    return files
