"""From raw text to a scored ELECTRA encoder: docs/python.md has the functions.

They are imported when they are first asked for: a stage needs its own extra alone.
"""

from importlib import import_module
from typing import Any

__all__ = [
    "clean",
    "encode",
    "evaluate",
    "export",
    "finetune",
    "inspect",
    "load_config",
    "predict",
    "pretrain",
    "publish",
    "report",
    "run",
    "train_vocab",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("electrify.api"), name)
    raise AttributeError(f"module 'electrify' has no attribute {name!r}")
