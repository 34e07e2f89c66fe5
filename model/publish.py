"""A finished run to the Hugging Face hub: the networks and the tokenizer as models, the documents
as a data set, each in a repository of its own with its card.

`huggingface_hub` uploads; it sends no file again that the hub has.
"""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import DatasetCardData, HfApi, ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from electrify.config.run import RunConfig
from electrify.stage.folder import check_files, input_digest, write_text
from electrify.stage.plan import CARD, NETWORKS, TOKENIZER_FILES, VERBS, output_dir
from electrify.stage.remote import pull
from electrify.storage.files import read_json
from electrify.storage.hub import hub_failure
from electrify.system.outcome import UserError
from electrify.system.progress import log
from model.weights.origin import UNKNOWN, Origin, read_origin

PARTS = ("encoder", "generator", "tokenizer", "dataset")
DEFAULT_PARTS = PARTS[:3]
_DETECTOR, _GENERATOR = NETWORKS[:2]  # whose names the reader of a discriminator knows
_SUFFIXES = dict(zip(PARTS, (_DETECTOR, _GENERATOR, "tokenizer", "corpus"), strict=True))
_STAGES = {"encoder": "export", "generator": "export", "tokenizer": "vocab", "dataset": "clean"}
_LAYOUT = "dataset-card.md"


@dataclass(frozen=True)
class Upload:
    """Files of one part of a run, and the card to write beside them, if they have none."""

    part: str
    repository: str  # NAMESPACE/NAME; the namespace may be left out
    files: tuple[Path, ...]
    card: str | None = None

    @property
    def kind(self) -> str:
        return "dataset" if self.part == "dataset" else "model"

    def __str__(self) -> str:
        num_bytes = sum(file.stat().st_size for file in self.files)
        return (
            f"{self.part}: {len(self.files) + (self.card is not None)} files, "
            f"{num_bytes / 1e6:,.1f} MB to the {self.kind} {self.repository}"
        )


def plan_uploads(
    config: RunConfig, to: str | None, parts: Collection[str] | None, licence: str | None
) -> list[Upload]:
    """What `publish` uploads. Every file is compared with its checksum.

    `to` begins the names of the repositories, the run's name by default. Raises `UserError` for an
    unknown part, a part that the run does not have, and documents of unknown licence without one.
    """
    if unknown := sorted({*(parts or ())} - {*PARTS}):
        raise UserError(f"--parts {unknown[0]}: the parts are {', '.join(PARTS)}")
    to, run = to or config.name, output_dir(config)
    chosen = [part for part in PARTS if part in (parts or DEFAULT_PARTS)]
    for stage in {_STAGES[part]: None for part in chosen}:
        pull(run, stage)
        input_digest(run / stage, VERBS[stage])
        check_files(run / stage, VERBS[stage])
    uploads = []
    for part in chosen:
        folder, card = run / _STAGES[part], None
        if part == "tokenizer":
            files = [folder / name for name in TOKENIZER_FILES]
            card = _tokenizer_card(config, to)
        elif part == "dataset":
            files = sorted(folder.glob("documents-*.parquet"))
            card = _dataset_card(config, licence)
        elif (folder / _SUFFIXES[part]).is_dir():
            files = sorted((folder / _SUFFIXES[part]).iterdir())
        elif parts is None:  # an objective without a generator
            continue
        else:
            raise UserError(f"--parts {part}: {folder} has no {_SUFFIXES[part]}/; leave it out")
        uploads.append(Upload(part, f"{to}-{_SUFFIXES[part]}", tuple(files), card))
    return uploads


def publish(uploads: Sequence[Upload], private: bool) -> list[str]:
    """Upload each; the addresses of the repositories. A repository that is there gets a new commit.

    Raises `UserError` where the hub refuses, and for a public repository where `private` is asked.
    """
    api, addresses = HfApi(), []
    for upload in uploads:
        with _explained(upload), tempfile.TemporaryDirectory() as scratch:
            kind = upload.kind
            made = api.create_repo(
                upload.repository, private=private or None, repo_type=kind, exist_ok=True
            )
            if private and not api.repo_info(made.repo_id, repo_type=kind).private:
                raise UserError(
                    f"{made.repo_id} is there and public, and --private is asked: make it private "
                    "on its page, or give another name with --to"
                )
            for file in upload.files:
                (Path(scratch) / file.name).symlink_to(file.resolve())
            if upload.card is not None:
                write_text(Path(scratch) / CARD, upload.card)
            api.upload_folder(
                repo_id=made.repo_id,
                repo_type=kind,
                folder_path=scratch,
                commit_message="Publish with electrify",
            )
            log(f"publish: {upload.part} is at {made}")
            addresses.append(str(made))
    return addresses


@contextmanager
def _explained(upload: Upload) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of the network, of rights: the hub's client has many sorts
        raise UserError(
            f"{upload.repository}: {hub_failure(error)}; the same command sends what is missing"
        ) from error


def _tokenizer_card(config: RunConfig, to: str) -> str:
    languages = sorted({source.language for source in config.clean.sources})
    data = ModelCardData(language=languages, library_name="transformers", tags=["tokenizer"])
    return (
        f"---\n{data.to_yaml()}\n---\n\n# {config.name} tokenizer\n\nThe WordPiece tokenizer of "
        f"`{to}-{_DETECTOR}`: `AutoTokenizer.from_pretrained(...)`.\n\nMade by electrify.\n"
    )


def _dataset_card(config: RunConfig, licence: str | None) -> str:
    """`licence` is that of the documents which name none."""
    report = read_json(output_dir(config) / "clean" / "report.json")
    text = dict(read_origin(config).text)
    if UNKNOWN in text:
        if not licence:
            raise UserError(
                f"{text[UNKNOWN]:,} documents have no known licence, and text that is not free may "
                "not be passed on: set `licence` of their sources, or say it with --licence"
            )
        text[licence] = text.get(licence, 0) + text.pop(UNKNOWN)
    found, name = replace(Origin({}, {}, 0), text=text).licence
    data = DatasetCardData(
        license=found,
        license_name=name,
        language=sorted({source.language for source in config.clean.sources}),
        task_categories=["fill-mask"],
        pretty_name=f"{config.name} corpus",
        configs=[{"config_name": "default", "data_files": "documents-*.parquet"}],
    )
    layout = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "weights"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # it is Markdown
    ).get_template(_LAYOUT)
    return layout.render(
        metadata=str(data.to_yaml()),
        name=config.name,
        licences=sorted(text.items()),
        sources=report["sources"],
        removed=report["removed"],
        said=licence if UNKNOWN in read_origin(config).text else None,
    )
