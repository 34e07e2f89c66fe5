"""Figures of the stages beside a named peer or an earlier commit, in one run.

python -m tools.throughput pretrain|finetune [--peer] [--json PATH] ...
python -m tools.throughput corpus|vocab|pretrain|finetune --against COMMIT

Only the module of the stage is imported: a GPU host need not have what cleans text. The fields of
its `Settings` are the options, which pydantic reads from their words.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from electrify.stage.folder import write_json
from electrify.system.machine import prepare_threads
from electrify.system.outcome import UserError, status_of
from electrify.system.progress import setup_logging, warn
from tools.throughput.report import Report

_STAGES = ("corpus", "vocab", "pretrain", "finetune")
_ONLY_AGAINST = ("corpus", "vocab")
_LOADED = 1.5  # a core; our own share is about 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and print its table; the exit status: 0 done, 1 refused."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m tools.throughput", allow_abbrev=False)
    parser.add_argument("stage", choices=_STAGES)
    stage = parser.parse_args(words[:1]).stage
    setup_logging()
    prepare_threads()
    is_against = stage in _ONLY_AGAINST or any(word.startswith("--against") for word in words)
    module = importlib.import_module(f"tools.throughput.{'against' if is_against else stage}")
    options = vars(_parser(stage, module).parse_args(words[1:]))
    path = options.pop("json")
    if (load := os.getloadavg()[0]) > _LOADED * (os.cpu_count() or 1):
        warn(f"the load average is {load:.1f}: other programs run, speeds measured now say little")

    def work() -> int:
        try:
            report: Report = module.measure(*[stage] * is_against, module.Settings(**options))
        except ValueError as error:
            raise UserError(str(error)) from error
        if path:
            write_json(path, report.as_json())
        print(report.markdown())
        return 0

    return status_of(work)


def _parser(stage: str, module: Any) -> argparse.ArgumentParser:
    prog, about = f"python -m tools.throughput {stage}", module.__doc__.partition("\n")[0]
    parser = argparse.ArgumentParser(prog=prog, description=about, allow_abbrev=False)
    parser.epilog = "--against COMMIT times the code of that commit, too: --against X --help"
    parser.add_argument("--json", metavar="PATH", type=Path, help="write every figure there")
    for field in fields(module.Settings):
        kind, *_, words = get_args(field.type)  # Annotated[type, ..., help]
        is_required = field.default is MISSING
        how: dict[str, Any] = {"help": words, "default": field.default, "required": is_required}
        if kind is bool:
            how["action"] = "store_true"
        elif get_origin(kind) is Literal:
            how["choices"] = get_args(kind)
        elif get_origin(kind) is tuple:
            how["type"] = lambda text: text.split(",")
        parser.add_argument(f"--{field.name.replace('_', '-')}", **how)
    return parser


if __name__ == "__main__":
    sys.exit(main())
