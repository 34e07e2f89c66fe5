"""A finished run to the Hugging Face hub: the networks as models, the documents as a data set, each
in a repository of its own with its card."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi

from electrify.config.run import RunConfig
from electrify.stage.folder import check_files, input_digest, read_manifest
from electrify.stage.networks import ENCODER
from electrify.stage.plan import CARD, NETWORKS, licence_of, output_dir
from electrify.storage.hub import hub_failure
from electrify.system.outcome import UserError
from electrify.system.progress import log
from model.weights.card import as_made, dataset_card

PARTS = (NETWORKS[0], ENCODER, NETWORKS[1], "dataset")
_OUTDATED = ["documents-*.parquet", "*.safetensors"]  # removed, where an earlier upload has them


def publish(
    config: RunConfig,
    to: str | None,
    parts: Sequence[str] | None,
    *,
    private: bool,
    licence: str | None,
    dry_run: bool,
) -> list[str]:
    """Upload parts of a run into repositories whose names begin with `to`, by default the run's
    name; their addresses, with `dry_run` what would be uploaded.

    Every file is compared with its checksum before. Raises `UserError` for a part that the run does
    not have, an unknown licence, a public repository where `private` is asked, and a refusal.
    """
    uploads, lines = list[tuple[dict[str, Any], Path, list[str], str]](), list[str]()
    for part in parts or PARTS[:3]:
        if part not in PARTS:
            raise UserError(f"`parts` {part}: the parts are {', '.join(PARTS)}")
        is_text = part == "dataset"
        stage, inner, beginning = ("clean", "", "documents-") if is_text else ("export", part, "")
        folder = output_dir(config) / stage
        input_digest(folder, stage)
        check_files(folder, stage)
        card = dataset_card(config, licence) if is_text else ""
        if not is_text and not licence_of(as_made(config, "export")):
            raise UserError(
                f"`parts` {part}: nobody has said under which licence these weights stand. Set "
                'export.licence (such as "cc-by-sa-4.0"), as the text and the initial model ask '
                "for, and run: electrify export CONFIG --overwrite"
            )
        # by the manifest: what the user put beside is theirs
        known = [Path(file) for file in read_manifest(folder)["files"]]
        names = [str(file.relative_to(inner)) for file in known if file.is_relative_to(inner)]
        if names := [file for file in names if file.startswith(beginning)]:
            kind, end = ("dataset", "corpus") if is_text else ("model", part)
            name = f"{to or config.name}-{end}"
            size = sum((folder / inner / file).stat().st_size for file in names) / 1e6
            uploads.append(({"repo_id": name, "repo_type": kind}, folder / inner, names, card))
            lines.append(f"{part}: {len(names)} files, {size:,.1f} MB to the {kind} {name}")
        elif parts:  # else it is of an objective without a generator
            raise UserError(f"`parts` {part}: {folder} has no {inner}/; leave it out")
    if dry_run or not uploads:
        return lines
    log("publish: " + "; ".join(lines))
    api, addresses = HfApi(), list[str]()
    try:
        for repository, *_ in uploads:  # all before the first is sent: one may be refused
            address = api.create_repo(**repository, private=private or None, exist_ok=True)
            repository["repo_id"] = address.repo_id  # with the owner
            addresses.append(str(address))
            if private and not api.repo_info(**repository).private:
                raise UserError("it is there and public, and `private` is asked")
        for (repository, folder, names, card), there in zip(uploads, addresses, strict=True):
            options = repository | {"allow_patterns": names, "delete_patterns": _OUTDATED}
            api.upload_folder(folder_path=folder, **options)
            if card:
                api.upload_file(path_or_fileobj=card.encode(), path_in_repo=CARD, **repository)
            log(f"publish: {folder.name} is at {there}")
    except Exception as error:  # of the network, of rights: the hub's client has many sorts
        reason = str(error) if isinstance(error, UserError) else hub_failure(error)
        message = f"{repository['repo_id']}: {reason}; the same command sends what is missing"
        raise UserError(message) from error
    return addresses
