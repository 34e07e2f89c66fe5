"""`electrify publish`: which files of a finished run go to the hub, and what is refused."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
from huggingface_hub import HfApi, RepoUrl

from electrify.api import publish
from electrify.config.run import ExportConfig, RunConfig
from electrify.stage.folder import Stage
from electrify.stage.run import run_stage
from tests.model.conftest import run_of

NETWORKS = ["discriminator", "encoder", "generator"]


class Hub:
    """What a client of the hub did: the files of each repository, and which are private."""

    def __init__(self) -> None:
        self.files: dict[str, set[str]] = {}
        self.private: dict[str, bool] = {}
        self.refused = ""  # the end of the name of a repository
        self.api = create_autospec(HfApi, instance=True)
        self.api.create_repo.side_effect = self.create
        self.api.repo_info.side_effect = lambda name: SimpleNamespace(private=self.private[name])
        self.api.upload_folder.side_effect = self.upload

    def create(self, name: str, *, private: bool | None, exist_ok: bool) -> RepoUrl:
        owned = name if "/" in name else f"made/{name}"
        self.files.setdefault(owned, set())
        self.private.setdefault(owned, bool(private))
        return RepoUrl(f"https://huggingface.co/{owned}")

    def upload(self, *, repo_id: str, folder_path: Path, allow_patterns: list[str], **_: Any):
        if self.refused and repo_id.endswith(self.refused):
            raise ConnectionError("broken")
        assert all((folder_path / name).is_file() for name in allow_patterns)
        self.files[repo_id] |= {*allow_patterns}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub()
    monkeypatch.setattr("model.publish.HfApi", lambda: hub.api)
    return hub


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    """Of a finished run, with a file of the user's beside those of the run."""

    def work(folder: Path) -> dict[str, int]:
        for name in NETWORKS:
            (folder / name / "1_Pooling").mkdir(parents=True)
            for file in ("config.json", "model.safetensors", "README.md", "1_Pooling/config.json"):
                (folder / name / file).write_text(name)
        return {}

    run_stage(Stage("export", tmp_path / "export", {}), work)
    (tmp_path / "export" / "discriminator" / "notes.txt").write_text("the user's own")
    named = {"name": "mine", "export": ExportConfig(licence="mit")}
    return run_of(tmp_path).model_copy(update=named)


def test_each_network_has_a_repository_with_the_files_of_the_run(hub: Hub, config: RunConfig):
    addresses = publish(config, "made/ko", private=True)
    assert addresses == [f"https://huggingface.co/made/ko-{name}" for name in NETWORKS]
    files = {"config.json", "model.safetensors", "README.md", "1_Pooling/config.json"}
    assert hub.files == {f"made/ko-{name}": files for name in NETWORKS}
    assert hub.private == {f"made/ko-{name}": True for name in NETWORKS}


def test_the_same_command_sends_what_is_missing(hub: Hub, config: RunConfig):
    hub.refused = "encoder"
    with pytest.raises(ValueError, match=r"mine-encoder: .*same command sends what is missing"):
        publish(config)
    hub.refused = ""
    publish(config)
    assert all(hub.files[f"made/mine-{name}"] for name in NETWORKS)


def test_a_dry_run_asks_for_nothing(hub: Hub, config: RunConfig):
    lines = publish(config, dry_run=True)
    assert not hub.files
    listed = [re.match(r"(\w+): 4 files, [\d.]+ MB to the model mine-\1", line) for line in lines]
    assert [match and match[1] for match in listed] == NETWORKS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": ["generator", "corpus"]}, "`parts` corpus: the parts are discriminator"),
        ({"to": "made/public", "private": True}, "public-encoder: it is there and public"),
    ],
)
def test_what_cannot_be_published_is_named_before_the_first_file(hub, config, options, message):
    hub.private["made/public-encoder"] = False
    with pytest.raises(ValueError, match=message):
        publish(config, **options)
    assert not any(hub.files.values())


def test_weights_of_unknown_licence_and_a_run_without_them_are_refused(hub: Hub, config: RunConfig):
    config = config.model_copy(update={"export": ExportConfig()})
    with pytest.raises(ValueError, match="nobody has said what licence"):
        publish(config)
    shutil.rmtree(Path(config.output_dir) / "export")
    with pytest.raises(ValueError, match="run first: electrify export"):
        publish(config)
    assert not hub.files
