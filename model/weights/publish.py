"""A finished run to the Hugging Face hub: the networks and the tokenizer as models, the documents
as a data set, each in a repository of its own with its card.

`huggingface_hub` uploads; it sends no file again that the hub has.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import DatasetCardData, HfApi, ModelCardData, RepoUrl
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from electrify.config.run import RunConfig
from electrify.stage.folder import check_files, input_digest, read_manifest, write_text
from electrify.stage.plan import CARD, NETWORKS, TOKENIZER_FILES, VERBS, output_dir
from electrify.storage.files import read_json
from electrify.storage.hub import hub_failure
from electrify.system.outcome import UserError, first_line
from electrify.system.progress import log
from model.weights.card import card_layout
from model.weights.origin import UNKNOWN, Origin, as_made, read_origin

_DETECTOR, _GENERATOR = NETWORKS[:2]  # the reader of a discriminator finds a generator so named
# the stage of each part, and how its repository is called
PARTS = {
    "encoder": ("export", _DETECTOR),
    "generator": ("export", _GENERATOR),
    "tokenizer": ("vocab", "tokenizer"),
    "dataset": ("clean", "corpus"),
}
_DATA = ["documents-*.parquet", "*.safetensors"]  # removed, if an earlier upload alone has them


@dataclass(frozen=True)
class Upload:
    """Files of one part of a run, and the card to write beside them, if they have none."""

    part: str
    repository: str  # NAMESPACE/NAME; the namespace may be left out
    files: Sequence[Path]
    card: str | None = None

    @property
    def kind(self) -> str:
        return "dataset" if self.part == "dataset" else "model"

    def __str__(self) -> str:
        num_files = len(self.files) + (self.card is not None)
        size = sum(file.stat().st_size for file in self.files) / 1e6
        return (
            f"{self.part}: {num_files} files, {size:,.1f} MB to the {self.kind} {self.repository}"
        )


def plan_uploads(
    config: RunConfig, to: str | None, parts: Sequence[str] | None, licence: str | None
) -> list[Upload]:
    """What `publish` uploads. Every file is compared with its checksum.

    `to` begins the names of the repositories, the run's name by default. Raises `UserError` for an
    unknown part, a part that the run does not have, and documents of unknown licence without one.
    """
    if unknown := sorted({*(parts or ())} - {*PARTS}):
        raise UserError(f"--parts {unknown[0]}: the parts are {', '.join(PARTS)}")
    to, run, uploads = to or config.name, output_dir(config), []
    chosen = {part: of for part, of in PARTS.items() if part in (parts or list(PARTS)[:3])}
    for stage in {stage: None for stage, _ in chosen.values()}:
        input_digest(run / stage, VERBS[stage])
        check_files(run / stage, VERBS[stage])
    for part, (stage, name) in chosen.items():
        folder, card, begins = run / stage, None, [f"{name}/"]
        if part == "tokenizer":
            card, begins = _tokenizer_card(config, to), [*TOKENIZER_FILES]
        elif part == "dataset":
            card, begins = _dataset_card(config, licence), ["documents-"]
        # what the user put beside is theirs
        files = [folder / n for n in read_manifest(folder)["files"] if n.startswith(tuple(begins))]
        try:
            validate_repo_id(f"{to}-{name}")
        except HFValidationError as error:
            raise UserError(f"--to {to!r}: {first_line(error)}") from None
        if files:
            uploads.append(Upload(part, f"{to}-{name}", files, card))
        elif parts:  # else it is of an objective without a generator
            raise UserError(f"--parts {part}: {folder} has no {name}/; leave it out")
    return uploads


def publish(uploads: Sequence[Upload], private: bool) -> list[str]:
    """Upload each; the addresses of the repositories. A repository that is there gets a new commit.

    Raises `UserError` where the hub refuses, and for a public repository where `private` is asked.
    """
    made = []
    for upload in uploads:  # all before the first is sent: one may be refused
        with _explained(upload):
            made.append(_make(upload, private))
    for upload, repository in zip(uploads, made, strict=True):
        with _explained(upload):
            _send(upload, repository)
        log(f"publish: {upload.part} is at {repository}")
    return [str(repository) for repository in made]


@contextmanager
def _explained(upload: Upload) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of the network, of rights: the hub's client has many sorts
        why = f"{upload.repository}: {hub_failure(error)}"
        raise UserError(f"{why}; the same command sends what is missing") from error


def _make(upload: Upload, private: bool) -> RepoUrl:
    api, kind = HfApi(), upload.kind
    made = api.create_repo(
        upload.repository, private=private or None, repo_type=kind, exist_ok=True
    )
    if private and not api.repo_info(made.repo_id, repo_type=kind).private:
        raise UserError(
            f"{made.repo_id} is there and public, and --private is asked: make it private on its "
            "page, or give another name with --to"
        )
    return made


def _send(upload: Upload, made: RepoUrl) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for file in upload.files:
            (Path(scratch) / file.name).symlink_to(file.resolve())
        if upload.card is not None:
            write_text(Path(scratch) / CARD, upload.card)
        HfApi().upload_folder(
            repo_id=made.repo_id, repo_type=upload.kind, folder_path=scratch, delete_patterns=_DATA
        )


def _tokenizer_card(config: RunConfig, to: str) -> str:
    data = ModelCardData(
        language=list(config.clean.languages), library_name="transformers", tags=["tokenizer"]
    )
    return (
        f"---\n{data.to_yaml()}\n---\n\n# {config.name} tokenizer\n\nThe WordPiece tokenizer of "
        f"`{to}-{_DETECTOR}`: `AutoTokenizer.from_pretrained(...)`.\n\nMade by electrify.\n"
    )


def _dataset_card(config: RunConfig, said: str | None) -> str:
    """`said` is the licence of the documents that name none."""
    made = as_made(config, "clean")
    text = dict(read_origin(made).text)
    num_unknown = text.pop(UNKNOWN, None)
    if num_unknown is not None:
        if not said:
            raise UserError(
                f"{num_unknown:,} documents have no known licence, and text that is not free may "
                "not be passed on: set `licence` of their sources, or say it with --licence"
            )
        text[said] = text.get(said, 0) + num_unknown
    licence, name = Origin(text, {}).licence
    rules, languages = made.clean, made.clean.languages
    data = DatasetCardData(
        license=licence,
        license_name=name,
        language=list(languages),
        pretty_name=f"{config.name} corpus",
        configs=[{"config_name": "default", "data_files": "documents-*.parquet"}],
    )
    return card_layout("dataset-card.md").render(
        metadata=str(data.to_yaml()),
        name=config.name,
        licences=sorted(text.items()),
        said=said if num_unknown is not None else None,
        unmasked=[n for n in {*languages, *rules.language} if not rules.rules_for(n).mask_pii],
        report=read_json(output_dir(config) / "clean" / "report.json"),
    )
