"""A finished run's networks to the Hugging Face hub, each in a repository of its own with its
card."""

from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import HfApi

from electrify.config.run import RunConfig
from electrify.stage.folder import check_files, input_digest, read_manifest
from electrify.stage.networks import ENCODER
from electrify.stage.plan import NETWORKS, licence_of, output_dir
from electrify.storage.hub import hub_failure
from electrify.system.outcome import UserError
from electrify.system.progress import log
from model.weights.card import as_made

PARTS = (NETWORKS[0], ENCODER, NETWORKS[1])


def publish(
    config: RunConfig, to: str | None, parts: Sequence[str] | None, private: bool, dry_run: bool
) -> list[str]:
    """Upload networks of a run into repositories whose names begin with `to`, by default the run's
    name; their addresses, with `dry_run` what would be uploaded.

    Every file is compared with its checksum before. Raises `UserError` for a part that the run does
    not have, an unknown licence, a public repository where `private` is asked, and a refusal.
    """
    folder, lines = output_dir(config) / "export", list[str]()
    files: dict[str, list[str]] = {}  # by part; by the manifest, what the user put beside is theirs
    for part in parts or PARTS:
        if part not in PARTS:
            raise UserError(f"`parts` {part}: the parts are {', '.join(PARTS)}")
        input_digest(folder, "export")
        names = [file for file in read_manifest(folder)["files"] if file.startswith(f"{part}/")]
        if names:
            files[part] = [file.removeprefix(f"{part}/") for file in names]
            size = sum((folder / file).stat().st_size for file in names) / 1e6
            to_name = f"{to or config.name}-{part}"
            lines.append(f"{part}: {len(names)} files, {size:,.1f} MB to the model {to_name}")
        elif parts:  # else it is of an objective without a generator
            raise UserError(f"`parts` {part}: {folder} has no {part}/; leave it out")
    check_files(folder, "export")
    if not licence_of(as_made(config, "export")):
        raise UserError(
            "nobody has said what licence these weights have. Set export.licence (such as "
            '"cc-by-sa-4.0"), as the text and the initial model ask for, and run: electrify export '
            "CONFIG --overwrite"
        )
    if dry_run:
        return lines
    log("publish: " + "; ".join(lines))
    return _upload(folder, to or config.name, files, private)


def _upload(folder: Path, to: str, files: dict[str, list[str]], private: bool) -> list[str]:
    api, addresses = HfApi(), {}
    name = ""
    try:
        for part in files:  # all before the first is sent: one may be refused
            name = f"{to}-{part}"
            addresses[part] = api.create_repo(name, private=private or None, exist_ok=True)
            if private and not api.repo_info(addresses[part].repo_id).private:
                raise UserError("it is there and public, and `private` is asked")
        for part, names in files.items():
            name = addresses[part].repo_id  # with the owner
            api.upload_folder(
                repo_id=name,
                folder_path=folder / part,
                allow_patterns=names,
                delete_patterns="*.safetensors",  # of an earlier upload
            )
            log(f"publish: {part} is at {addresses[part]}")
    except Exception as error:  # of the network, of rights: the hub's client has many sorts
        reason = str(error) if isinstance(error, UserError) else hub_failure(error)
        message = f"{name}: {reason}; the same command sends what is missing"
        raise UserError(message) from error
    return [str(address) for address in addresses.values()]
