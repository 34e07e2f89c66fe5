"""Which licence follows from text and earlier weights, and what the hub reads of it."""

import json
from pathlib import Path

import pytest

from electrify.config.load import load_config
from model.weights.origin import Origin, base_model, read_origin
from tests.model.conftest import make_config

SHIPPED = Path("model/shipped/ko-modern")


@pytest.mark.parametrize(
    ("text", "initial", "licence", "shared"),
    [
        (["CC BY-SA 4.0"], [], "cc-by-sa-4.0", ["cc-by-sa-4.0"]),
        (["Apache 2.0"], [], "apache-2.0", []),
        (["CC0", "MIT"], [], "mit", []),  # CC0 asks for nothing
        (["CC0-1.0, as a catalogue says"], [], "cc0-1.0", []),
        (["CC BY-NC 4.0"], [], "cc-by-nc-4.0", []),
        # share-alike is carried over
        (["Apache-2.0", "CC0-1.0"], ["cc-by-sa-4.0"], "cc-by-sa-4.0", ["cc-by-sa-4.0"]),
        (["cc-by-4.0"], ["CC BY-NC-SA 4.0"], "cc-by-nc-sa-4.0", ["cc-by-nc-sa-4.0"]),
        # without one licence for all
        ([""], [], "other unknown", []),
        (["CC BY 4.0"], [""], "other cc-by-4.0-and-unknown", []),
        ([""], ["cc-by-sa-4.0"], "other cc-by-sa-4.0-and-unknown", ["cc-by-sa-4.0"]),
        (["Apache-2.0", "CC BY 4.0"], [], "other apache-2.0-and-cc-by-4.0", []),
        (["CC BY-NC 4.0"], ["cc-by-sa-4.0"], "other cc-by-nc-4.0-and-cc-by-sa-4.0",
         ["cc-by-sa-4.0"]),
        (["KOGL Type 1"], [], "other kogl-type-1", []),
        (["공공누리"], [], "other unknown", []),
    ],
)  # fmt: skip
def test_the_licence_that_follows(text, initial, licence, shared):
    origin = Origin(dict.fromkeys(text, 1), {"before": initial})
    assert " ".join(filter(None, origin.licence)) == licence
    assert origin.share_alike == shared
    name = origin.licence[1]
    assert name is None or name.isascii()


def test_the_base_model_is_one_of_the_hub():
    assert [base_model(name) for name in ("klue/roberta-small", "bert-base")] == [
        "klue/roberta-small",
        "bert-base",
    ]
    for folder in ("model/shipped/ko-modern/discriminator", "configs", "/a/run", None):
        assert base_model(folder) is None


def write_card(folder: Path, text: str) -> str:
    folder.mkdir()
    (folder / "README.md").write_text(text, encoding="utf-8")
    return str(folder)


def test_a_model_card_tells_the_licence_of_earlier_weights(tmp_path, monkeypatch):
    def licences(name: str) -> list[str]:
        return read_origin(make_config(tmp_path / "run", initial_model=name)).initial[name]

    listed = write_card(tmp_path / "a", "---\nlicense: [mit, cc-by-4.0]\n---\n")
    named = write_card(tmp_path / "b", "---\nlicense: other\nlicense_name: kogl-1\n---\n")
    assert [licences(listed), licences(named)] == [["cc-by-4.0", "mit"], ["kogl-1"]]
    for n, text in enumerate(
        (
            "---\nlicense: unknown\n---\n",
            "no metadata",
            "---\n: [\n---\n",
            "---\nlicense: {a: [1]}\n---\n",
        )
    ):
        assert licences(write_card(tmp_path / str(n), text)) == [""]
    assert licences(str(tmp_path / "gone")) == [""]
    monkeypatch.setattr(
        "model.weights.origin.hf_hub_download", lambda name, file: str(Path(listed) / file)
    )
    assert licences("klue/roberta-small") == ["cc-by-4.0", "mit"]


def test_the_demo_carries_the_licence_of_the_shipped_weights_over(tmp_path):
    config = load_config("configs/demo.toml", [f"output_dir='{tmp_path}'"])
    origin = read_origin(config)
    assert origin.licence == ("cc-by-sa-4.0", None)
    assert set(origin.text) == {"Apache-2.0"}


def test_the_shipped_encoder_recommends_the_recipe_of_its_config():
    found = json.loads((SHIPPED / "discriminator" / "finetuning.json").read_text(encoding="utf-8"))
    assert found == load_config("configs/ko-modern.toml").evaluate.recommended
    assert found["recipe"] == "electra"
