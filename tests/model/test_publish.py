"""`electrify publish`: what a finished run sends to the hub, and what it must not."""

import json
import re
import shutil
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
from datasets import Value
from huggingface_hub import DatasetCard, HfApi, RepoUrl
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from electrify.api import publish
from electrify.config.load import parse_config
from electrify.stage.folder import Stage
from electrify.stage.networks import write_pooling
from electrify.stage.run import run_stage
from tests.benchmarks.conftest import build_tokenizer, save_electra
from tests.hub.schemas import parquet

TEXT = "오늘은 날씨가 맑아서 공원에 갔다. 첫 사람이 크게 웃었다."
NOTES = "notes.txt"


class Hub:
    """What a client of the hub did: the files of each repository, and which are private."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.refuses = ""  # the end of the name of a repository
        self.api = create_autospec(HfApi, instance=True)
        for name in ("create_repo", "repo_info", "upload_folder", "upload_file"):
            getattr(self.api, name).side_effect = getattr(self, name)

    def create_repo(self, *, repo_id: str, private: bool | None, **_: Any) -> RepoUrl:
        owned = repo_id if "/" in repo_id else f"made/{repo_id}"
        self.files.setdefault(owned, {})
        self.private.setdefault(owned, bool(private))
        return RepoUrl(f"https://huggingface.co/{owned}")

    def repo_info(self, *, repo_id: str, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(private=self.private[repo_id])

    def upload_folder(
        self,
        *,
        folder_path: Path,
        repo_id: str,
        allow_patterns: list[str],
        delete_patterns: list[str],
        **_: Any,
    ) -> None:
        if self.refuses and repo_id.endswith(self.refuses):
            raise ConnectionError("broken")
        for old in [*self.files[repo_id]]:
            if any(fnmatch(old, pattern) for pattern in delete_patterns):
                del self.files[repo_id][old]
        sent = {name: (folder_path / name).read_bytes() for name in allow_patterns}
        self.files[repo_id] |= sent

    def upload_file(self, *, path_or_fileobj: bytes, path_in_repo: str, repo_id: str, **_: Any):
        self.files[repo_id][path_in_repo] = path_or_fileobj


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub()
    monkeypatch.setattr("model.publish.HfApi", lambda: hub.api)
    return hub


def _write_networks(folder: Path) -> dict[str, int]:
    tokenizer = build_tokenizer(["오늘", "공원"])
    for name, kind in (("discriminator", ElectraForPreTraining), ("generator", ElectraForMaskedLM)):
        save_electra(folder / name, kind, 1, tokenizer)
        (folder / name / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    shutil.copytree(folder / "discriminator", folder / "encoder")
    write_pooling(folder / "encoder")
    return {}


def _write_documents(folder: Path, licences: dict[str, int]) -> dict[str, int]:
    names = ("id", "text", "language", "source", "url", "licence", "source_id")
    row = dict.fromkeys(names, "") | {"text": TEXT, "licence": "MIT"}
    table = parquet([row], {name: Value("string") for name in names})
    for name in ("documents-00000.parquet", "removed-00000.parquet"):
        (folder / name).write_bytes(table)
    rows = [{"licence": name, "documents": count} for name, count in licences.items()]
    report = {"licences": rows, "sources": [], "removed": []}
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return {}


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """The config of a finished run whose documents have these licences."""
    made = tmp_path_factory.mktemp("export")
    _write_networks(made)

    def make(licences: dict[str, int], licence: str | None = "mit", **clean: Any) -> Any:
        run = tmp_path_factory.mktemp("run") / "mine"
        works: dict[str, Callable[[Path], dict[str, int]]] = {
            "clean": lambda folder: _write_documents(folder, licences),
            "export": lambda folder: shutil.copytree(made, folder, dirs_exist_ok=True) and {},
        }
        for stage, work in works.items():
            run_stage(Stage(stage, run / stage, {}), work)
        for beside in ("clean/documents-00009.parquet", f"export/discriminator/{NOTES}"):
            (run / beside).write_text("the user's own")
        source = {"kind": "text", "language": "ko", "path": "none.txt"}
        raw = {"name": "mine", "output_dir": str(run), "clean": {"sources": [source]} | clean}
        return parse_config(raw | ({"export": {"licence": licence}} if licence else {}))

    return make


@pytest.fixture(scope="module")
def config(make: Callable[..., Any]) -> Any:
    return make({"MIT": 1})


def test_each_part_has_a_repository(hub: Hub, config: Any):
    """With the files of the run, the cards, and nothing beside, in place of an earlier upload."""
    hub.files["made/ko-corpus"] = dict.fromkeys([".gitattributes", "documents-00001.parquet"], b"")
    hub.private["made/ko-corpus"] = True
    networks = ["discriminator", "generator", "encoder"]
    addresses = publish(config, "made/ko", parts=[*networks, "dataset"], private=True)
    ends = [*networks, "corpus"]
    assert addresses == [f"https://huggingface.co/made/ko-{end}" for end in ends]
    assert [hub.private[f"made/ko-{end}"] for end in ends] == [True] * 4
    export = Path(config.output_dir) / "export"
    for name in networks:
        files = [path for path in (export / name).rglob("*") if path.is_file()]
        here = {path.relative_to(export / name).as_posix(): path.read_bytes() for path in files}
        here.pop(NOTES, None)
        assert hub.files[f"made/ko-{name}"] == here
    corpus = hub.files["made/ko-corpus"]
    assert {*corpus} == {".gitattributes", "README.md", "documents-00000.parquet"}
    assert "| MIT | 1 |" in DatasetCard(corpus["README.md"].decode()).text


def test_the_same_command_sends_what_is_missing(hub: Hub, config: Any):
    hub.refuses = "generator"
    with pytest.raises(ValueError, match=r"twice-generator: .*same command sends what is missing"):
        publish(config, "made/twice")
    hub.refuses = ""
    publish(config, "made/twice")
    assert "model.safetensors" in hub.files["made/twice-generator"]


def test_a_dry_run_asks_for_nothing(hub: Hub, config: Any):
    lines = publish(config, dry_run=True)
    assert not hub.files
    listed = [re.match(r"(\w+): \d+ files, [\d.]+ MB to the model mine-", line) for line in lines]
    assert [match and match[1] for match in listed] == ["discriminator", "encoder", "generator"]


def test_what_has_no_known_licence_is_refused_unless_the_user_names_it(hub: Hub, make: Any):
    config = make({"MIT": 1, "": 3}, licence=None, mask_pii=False)
    with pytest.raises(ValueError, match="3 documents have no known licence"):
        publish(config, "made/un", parts=["dataset"])
    for part in ("discriminator", "generator"):
        with pytest.raises(ValueError, match="nobody has said under which licence"):
            publish(config, "made/un", parts=[part])
    assert not hub.files
    publish(config, "made/un", parts=["dataset"], licence="CC BY-SA 4.0")
    card = DatasetCard(hub.files["made/un-corpus"]["README.md"].decode())
    assert "| CC BY-SA 4.0 | 3 |" in card.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": ["generator", "corpus"]}, "`parts` corpus: the parts are discriminator"),
        ({"to": "made/public", "private": True}, "public-discriminator: it is there and public"),
    ],
)
def test_what_cannot_be_published_is_named_before_the_first_file(
    hub: Hub, config: Any, options: dict[str, Any], message: str
):
    hub.private["made/public-discriminator"] = False
    with pytest.raises(ValueError, match=message):
        publish(config, **options)
    assert not any(hub.files.values())
