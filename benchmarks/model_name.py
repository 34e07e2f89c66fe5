"""What the name of a model stands for: a folder, or a commit of the hub. Without torch, whose
import takes seconds."""

from pathlib import Path

from huggingface_hub import hf_hub_download, try_to_load_from_cache

from electrify.stage.plan import NETWORKS, is_hub_name
from electrify.storage.hub import hub_failure, try_hub
from electrify.system.outcome import UserError
from electrify.system.progress import warn


def encoder_path(model: str) -> str:
    """The folder of the discriminator of a run or an export; of anything else as it is."""
    folders = [Path(model, folder, NETWORKS[0]) for folder in ("", "export")]
    return next((str(folder) for folder in folders if folder.is_dir()), model)


def check_model(name: str) -> None:
    """`UserError` for what is neither a folder with a config nor a name that the hub may have; the
    hub is not asked."""
    if Path(name).is_dir():
        if not Path(name, "config.json").is_file():
            raise UserError(
                f"cannot read a model at {name}: it has no config.json "
                "(needed: config.json, model.safetensors and the tokenizer files)"
            )
    elif not is_hub_name(name):
        raise UserError(f"no model folder {name}; give a folder with config.json, or a hub name")


def pinned(model: str) -> tuple[str, str | None]:
    """How stages name a model folder or hub name that all jobs read, and its `commit_of`."""
    commit = commit_of(model)
    return (f"{model}@{commit}" if commit else model), commit


def commit_of(path: str) -> str | None:
    """The commit that `main` of a hub name is now, else the one in the cache; None of a folder.
    Raises `ValueError` where the hub does not give the model's config."""
    check_model(path)
    if Path(path).is_dir():
        return None
    try_hub()
    try:
        file = hf_hub_download(path, "config.json")
    except Exception as error:  # of the network, of rights: the hub's client has many sorts
        cached = try_to_load_from_cache(path, "config.json")
        if not isinstance(cached, str):
            raise UserError(
                f"no model folder {path} here, and not from the hub: {hub_failure(error)}"
            ) from error
        warn(f"{path} is read from the cache: {hub_failure(error)}")
        file = cached
    return Path(file).parent.name
