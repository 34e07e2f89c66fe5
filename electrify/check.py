"""What a run will need, checked before any work: files, folders, devices, weights, the hub.

Each check is a function that raises `UserError`. A check that needs a library which is not here is
left out, and a line says so: `electrify validate` works without any extra.
"""

import importlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from electrify.config.run import EvaluationRun, RunConfig
from electrify.stage.plan import check_initial, earlier_corpora
from electrify.stage.remote import is_address
from electrify.stage.trackers import require_trackers
from electrify.storage.hub import hub_failure
from electrify.system.outcome import UserError, first_line

MIN_FREE_BYTES = 2**28
_HUB_SECONDS = 10.0  # for one answer


def check_run(config: RunConfig) -> list[str]:
    """Check all that the stages of a run will need; returns a line for each check left out.

    `UserError` names everything that is missing or cannot work.
    """
    checks: dict[str, Callable[[], object]] = {
        "clean": partial(check_corpus, config),
        "addresses": partial(_check_addresses, config),
        "vocab": partial(_check_vocabulary, config),
        "pretrain": partial(_check_pretraining, config),
        "evaluate": partial(_check_evaluation, config),
        "devices": partial(_check_devices, config),
    }
    problems, left_out = [], []
    for name, check in checks.items():
        try:
            check()
        except ModuleNotFoundError as error:
            left_out.append(f"{name} is not checked: {error}; pip install 'electrify[all]'")
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    return left_out


def check_corpus(config: RunConfig) -> None:
    """`UserError` for sources or rules that are not there, and for a full disk."""
    from pipeline.rules.extra import read_code
    from pipeline.sources.files import check_inputs

    read_code(config.clean.extra_rules)
    earlier_corpora(config)
    num_bytes, folder = check_inputs(config.clean), Path(config.output_dir)
    if config.clean.decontaminate_against:
        from benchmarks.tasks.texts import check_benchmarks

        check_benchmarks(config)
    # once begun, some of it is written, and later stages need far less
    is_begun = any((folder / name).exists() for name in ("clean", "clean.partial", ".work"))
    if not (is_address(config.output_dir) or is_begun):
        check_output(config, max(num_bytes, MIN_FREE_BYTES))


def check_output(config: EvaluationRun, num_bytes: int = MIN_FREE_BYTES) -> None:
    """`UserError` if the output folder cannot be written, or has no room for so many bytes."""
    folder = Path(config.output_dir).absolute()
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    if not parent.is_dir():
        raise UserError(f"output_dir = {config.output_dir!r}: {parent} is a file; name a folder")
    if not os.access(parent, os.W_OK):
        raise UserError(
            f"output_dir = {config.output_dir!r}: {parent} cannot be written; name another folder"
        )
    free = shutil.disk_usage(parent).free
    if free < num_bytes:
        raise UserError(
            f"output_dir = {config.output_dir!r}: {free / 2**20:,.0f} MiB are free there, and "
            f"{num_bytes / 2**20:,.0f} MiB or more are needed; make room or name another folder"
        )


def _check_addresses(config: RunConfig) -> None:
    """`UserError` for an address whose protocol no installed library knows."""
    from fsspec import get_filesystem_class

    paths = {
        "output_dir": config.output_dir,
        "beam.work_dir": config.beam.work_dir,
        "pretrain.checkpoint_dir": config.pretrain.checkpoint_dir,
        "pretrain.inputs_dir": config.pretrain.inputs_dir,
    } | {f"clean.sources[{i}].path": source.path for i, source in enumerate(config.clean.sources)}
    for key, path in paths.items():
        if path is None or not is_address(path):
            continue
        try:
            get_filesystem_class(path.partition("://")[0])
        except (ValueError, ImportError) as error:
            raise UserError(f"{key} = {path!r}: {first_line(error)}") from None


def _check_vocabulary(config: RunConfig) -> None:
    from vocab.train import check_vocab_inputs

    check_vocab_inputs(config)


def _check_pretraining(config: RunConfig) -> None:
    options = config.pretrain
    missing = check_initial(options)
    for option, name in missing.items():
        _check_hub("model", name, f"pretrain.{option}")
    if options.initial_model and not missing:
        from model.weights.initial import check_initial_shapes

        check_initial_shapes(config)
    require_trackers(options, "pretrain")


def _check_evaluation(config: RunConfig) -> None:
    if not config.evaluate.has_tasks:
        return
    from benchmarks.tasks.load import check_data, hub_paths

    require_trackers(config.evaluate, "evaluate")
    check_data(config.evaluate)
    for task, path in hub_paths(config.evaluate).items():
        _check_hub("dataset", path, f"evaluate: {task}")


def _check_hub(kind: str, name: str, key: str) -> None:
    """`UserError` if a model or data set is neither on the hub nor in the cache."""
    from huggingface_hub import HfApi, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound, RepositoryNotFoundError

    try:
        HfApi().repo_info(name, repo_type=kind, timeout=_HUB_SECONDS)
    except RepositoryNotFoundError:
        raise UserError(
            f"{key} = {name!r}: neither a folder here nor a {kind} on the hub that you may read "
            "(for a private or gated one log in: hf auth login)"
        ) from None
    except Exception as error:  # offline, a proxy, time-outs: each client has errors of its own
        with suppress(CacheNotFound):
            if any(repo.repo_id == name for repo in scan_cache_dir().repos):
                return
        raise UserError(
            f"{key} = {name!r}: {hub_failure(error)} (this {kind} is not in the cache here)"
        ) from None


def _check_devices(config: RunConfig) -> None:
    """`UserError` if a device that the config names is missing; `auto` needs none."""
    named = {"pretrain": config.pretrain.device, "evaluate": config.evaluate.device}
    for section, device in named.items():
        if device in ("auto", "cpu"):
            continue
        if device == "xla":
            if find_spec("torch_xla") is None:
                raise UserError(f'{section}.device = "xla": torch_xla is not installed')
            continue
        torch = importlib.import_module("torch")
        backend = torch.backends.mps if device == "mps" else torch.cuda
        if not backend.is_available():
            raise UserError(
                f'{section}.device = "{device}": torch {torch.__version__} sees no such device '
                'here; use "auto" or "cpu", or see `electrify doctor`'
            )
