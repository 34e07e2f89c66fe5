"""`electrify publish`: what is uploaded can be used from the hub, and what must not be is not."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import Value
from huggingface_hub import DatasetCard
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from electrify.stage.folder import Stage
from electrify.stage.networks import write_pooling
from electrify.stage.run import run_stage
from tests.benchmarks.conftest import build_tokenizer, save_electra
from tests.hub.conftest import Electrify
from tests.hub.schemas import parquet
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
TEXT = "오늘은 날씨가 맑아서 공원에 갔다. 첫 사람이 크게 웃었다."
MakeRun = Callable[[str, dict[str, int]], str]


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
    (folder / "documents-00000.parquet").write_bytes(table)
    (folder / "removed-00000.parquet").write_bytes(table)
    rows = [{"licence": name, "documents": count} for name, count in licences.items()]
    report = {"licences": rows, "sources": [], "removed": []}
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return {}


@pytest.fixture(scope="module")
def make_run(electrify: Electrify) -> MakeRun:
    """The config of a finished run whose documents have these licences."""

    def make(name: str, licences: dict[str, int]) -> str:
        run = electrify.folder / name
        works: dict[str, Callable[[Path], dict[str, int]]] = {
            "clean": lambda folder: _write_documents(folder, licences),
            "export": _write_networks,
        }
        for stage, work in works.items():
            run_stage(Stage(stage, run / stage, {}), work)
        for beside in ("clean/documents-00009.parquet", f"export/discriminator/{NOTES}"):
            (run / beside).write_text("the user's own")
        config = electrify.folder / f"{name}.toml"
        config.write_text(CONFIG.format(run), encoding="utf-8")
        return str(config)

    return make


@pytest.fixture(scope="module")
def config(make_run: MakeRun) -> str:
    return make_run("free", {"MIT": 1})


def test_each_part_has_a_repository(hub: Hub, electrify: Electrify, config: str):
    """With the files of the run, the cards, and nothing beside; listed before it is uploaded."""
    parts = "--parts=discriminator, generator, encoder, dataset"
    earlier = dict.fromkeys([".gitattributes", "documents-00001.parquet"], b"")
    hub.add("datasets", "made/ko-corpus", earlier)
    hub.private["made/ko-corpus"] = True
    ended = electrify("publish", config, "--to=made/ko", parts, "--private")
    assert ended.status == 0
    names = ("discriminator", "generator", "encoder", "corpus")
    assert all(
        f"/made/ko-{name}\n" in ended.text and hub.private[f"made/ko-{name}"] for name in names
    )
    assert ended.text.index("MB to the dataset made/ko-corpus") < ended.text.index("is at http")
    export = electrify.folder / "free/export"
    for name in names[:3]:
        files = [path for path in (export / name).rglob("*") if path.is_file()]
        here = {str(path.relative_to(export / name)): path.read_bytes() for path in files}
        here.pop(NOTES, None)
        assert hub.files("models", f"made/ko-{name}") == here | {".gitattributes": b""}
    corpus = hub.files("datasets", "made/ko-corpus")
    assert {*corpus} == {".gitattributes", "README.md", "documents-00000.parquet"}
    assert "| MIT | 1 |" in DatasetCard(corpus["README.md"].decode()).text


@pytest.mark.slow
def test_what_is_published_is_used_from_the_hub(hub: Hub, electrify: Electrify, config: str):
    """The discriminator with the generator that its name leads to, and the documents."""
    parts = "--parts=discriminator,generator,dataset"
    assert electrify("publish", config, "--to=made/used", parts).status == 0
    seen = electrify("inspect", "made/used-discriminator", "오늘 공원", "--threshold=0.5", "--json")
    assert '"proposals"' in seen.text
    source = '{ kind = "huggingface", language = "ko", path = "made/used-corpus" }'
    (electrify.folder / "again.toml").write_text(
        f'name = "again"\noutput_dir = "out/again"\n[clean]\nsources = [{source}]\n'
    )
    assert "1 of 1 documents kept" in electrify("clean", "again.toml").text


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


def test_documents_of_unknown_licence_are_refused(
    hub: Hub, electrify: Electrify, make_run: MakeRun
):
    """Unless the user says what it is."""
    words = ("publish", make_run("unknown", {"MIT": 1, "": 3}), "--to=made/un", "--parts=dataset")
    assert "3 documents have no known licence" in electrify(*words).error
    assert electrify(*words, "--licence=CC BY-SA 4.0", "--set=clean.mask_pii=false").status == 0
    card = DatasetCard(hub.files("datasets", "made/un-corpus")["README.md"].decode())
    assert "| CC BY-SA 4.0 | 3 |" in card.text
    assert "Personal data are not masked in texts of these languages: ko." in card.text


def test_weights_of_unknown_licence_are_refused(electrify: Electrify, make_run: MakeRun):
    path = Path(make_run("unlicensed", {"MIT": 1}))
    path.write_text(path.read_text().partition("[export]")[0])
    for part in ("discriminator", "generator"):
        refused = electrify("publish", str(path), "--to=made/no", f"--parts={part}", "--dry-run")
        assert f"--parts {part}: nobody has said under which licence" in refused.error


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
