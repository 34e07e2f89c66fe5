"""`electrify publish`: what is uploaded can be used from the hub, and what must not be is not."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from electrify.stage.folder import Stage
from electrify.stage.networks import write_pooling
from electrify.stage.run import run_stage
from tests.benchmarks.conftest import build_tokenizer, save_electra
from tests.hub.conftest import Electrify
from tests.hub.server import Hub

CONFIG = """
name = "mine"
output_dir = "{}"
[clean]
sources = [{{ kind = "text", language = "ko", path = "none.txt" }}]
[export]
licence = "mit"
"""
NOTES = "notes.txt"


def _write_networks(folder: Path) -> dict[str, int]:
    tokenizer = build_tokenizer(["오늘", "공원"])
    for name, kind in (("discriminator", ElectraForPreTraining), ("generator", ElectraForMaskedLM)):
        save_electra(folder / name, kind, 1, tokenizer)
        (folder / name / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    shutil.copytree(folder / "discriminator", folder / "encoder")
    write_pooling(folder / "encoder")
    return {}


@pytest.fixture(scope="module")
def make_run(electrify: Electrify) -> Callable[[str], str]:
    """The config of a finished run."""

    def make(name: str) -> str:
        run = electrify.folder / name
        run_stage(Stage("export", run / "export", {}), _write_networks)
        (run / "export/discriminator" / NOTES).write_text("the user's own")
        config = electrify.folder / f"{name}.toml"
        config.write_text(CONFIG.format(run), encoding="utf-8")
        return str(config)

    return make


@pytest.fixture(scope="module")
def config(make_run: Callable[[str], str]) -> str:
    return make_run("free")


def test_each_part_has_a_repository(hub: Hub, electrify: Electrify, config: str):
    """With the files of the run, the cards, and nothing beside; listed before it is uploaded."""
    names = ("discriminator", "generator", "encoder")
    hub.add(
        "models", "made/ko-generator", dict.fromkeys([".gitattributes", "old.safetensors"], b"")
    )
    hub.private["made/ko-generator"] = True
    ended = electrify("publish", config, "--to=made/ko", f"--parts={', '.join(names)}", "--private")
    assert ended.status == 0
    assert all(
        f"/made/ko-{name}\n" in ended.text and hub.private[f"made/ko-{name}"] for name in names
    )
    assert ended.text.index("MB to the model made/ko-encoder") < ended.text.index("is at http")
    export = electrify.folder / "free/export"
    for name in names:
        files = [path for path in (export / name).rglob("*") if path.is_file()]
        here = {str(path.relative_to(export / name)): path.read_bytes() for path in files}
        here.pop(NOTES, None)
        assert hub.files("models", f"made/ko-{name}") == here | {".gitattributes": b""}


@pytest.mark.slow
def test_what_is_published_is_used_from_the_hub(hub: Hub, electrify: Electrify, config: str):
    """The discriminator with the generator that its name leads to."""
    parts = "--parts=discriminator,generator"
    assert electrify("publish", config, "--to=made/used", parts).status == 0
    seen = electrify("inspect", "made/used-discriminator", "오늘 공원", "--threshold=0.5", "--json")
    assert '"proposals"' in seen.text


def test_the_same_command_sends_what_is_missing(hub: Hub, electrify: Electrify, config: str):
    """After an upload that broke between two parts."""

    def break_the_next(request: str) -> None:
        if "twice-discriminator/commit" in request:
            hub.faults["made/twice-generator"] = 503

    hub.watch = break_the_next
    words = ("publish", config, "--to=made/twice", "--parts=discriminator,generator")
    assert re.search(
        r"twice-generator: the hub fails \(503\).*same command", electrify(*words).error
    )
    hub.watch = str
    hub.faults.clear()
    num_before = len(hub.requests)
    assert electrify(*words).status == 0
    assert hub.requests[num_before:].count("POST /api/repos/create") == 2
    assert "model.safetensors" in hub.files("models", "made/twice-generator")


def test_a_dry_run_uploads_nothing(hub: Hub, electrify: Electrify, config: str):
    before = len(hub.requests)
    ended = electrify("publish", config, "--dry-run")
    assert len(hub.requests) == before
    listed = re.findall(r"^(\w+): \d+ files, [\d.]+ MB to the model mine-", ended.text, re.M)
    assert listed == ["discriminator", "encoder", "generator"]


def test_weights_of_unknown_licence_are_refused(
    electrify: Electrify, make_run: Callable[[str], str]
):
    path = Path(make_run("unlicensed"))
    path.write_text(path.read_text().partition("[export]")[0])
    for part in ("discriminator", "generator"):
        refused = electrify("publish", str(path), "--to=made/no", f"--parts={part}", "--dry-run")
        assert "nobody has said under which licence" in refused.error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--parts=generator,corpus"], "--parts corpus: the parts are discriminator, encoder"),
        (["--to=made/public", "--private"], "public-generator: it is there and public"),
        (["--to=a b/c"], "a b/c-discriminator: Repo id must"),
        (["--to=made/refused"], "refused-discriminator: .*log in: hf auth login"),
        (["--set=output_dir=out/none"], "run first: electrify export"),
    ],
)
def test_what_cannot_be_published_is_named(
    hub: Hub, electrify: Electrify, config: str, words: list[str], message: str
):
    """Before the first file is sent."""
    hub.add("models", "made/public-generator", {})
    hub.faults["made/refused-discriminator"] = 401
    num_before = len(hub.requests)
    assert re.search(message, electrify("publish", config, *words).error)
    assert not any("/commit/" in request for request in hub.requests[num_before:])
