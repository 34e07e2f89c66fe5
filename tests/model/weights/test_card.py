"""Model cards say what the manifests say; domain adaptation runs from one export to the next."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from electrify.config.evaluate import EvaluateConfig
from electrify.config.load import load_config
from electrify.config.run import ExportConfig, RunConfig
from electrify.stage.folder import Stage, input_digest, read_manifest, write_manifest
from electrify.stage.plan import evaluate_stage, licence_of, recommended_settings
from electrify.stage.run import run_stage
from model.export import export
from model.pretrain import pretrain
from model.weights.card import add_sections, num_parameters
from tests.model.conftest import PIECES, make_config, make_run
from tests.model.trained import records_of
from tests.pipeline.cases import read_cases

DOMAIN = [*PIECES, "서울에", "##시에", "산"]
SHORT = {"num_steps": 6, "warmup_steps": 1, "valid_every_steps": 3, "num_valid_batches": 1}
REPORT = read_cases(__file__)


def cleaned_run(folder: Path, pieces: Sequence[str] = PIECES, **options: object) -> RunConfig:
    """A config whose run folder is finished up to its shards."""
    config = make_run(folder, pieces, **(SHORT | options))

    def clean(target: Path) -> dict[str, int]:
        (target / "report.json").write_text(json.dumps(REPORT))
        return {}

    run_stage(Stage("clean", folder / "clean", {}), clean)
    return config


def exported(config: RunConfig) -> RunConfig:
    """The same config, trained and exported."""
    pretrain(config)
    export(config)
    return config


def cards(config: RunConfig) -> dict[str, str]:
    folder = Path(config.output_dir) / "export"
    return {path.parent.name: path.read_text() for path in folder.glob("*/README.md")}


OBJECTIVES = {"electra": "replaced token detection", "all-tokens-mlm": "prediction of every token"}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_cards_say_what_was_trained_on_what(tmp_path, objective):
    config = cleaned_run(tmp_path / "run", objective=objective)
    licensed = {"export": ExportConfig(licence="cc-by-sa-4.0")}
    texts = cards(exported(config.model_copy(update=licensed)))
    folders = {"discriminator", "encoder", "generator"}
    assert texts.keys() - {"language_model"} == folders
    assert ("language_model" in texts) == (objective == "all-tokens-mlm")
    summary = read_manifest(tmp_path / "run" / "pretrain")["counts"]
    for kind, text in texts.items():
        assert f"# tiny {kind.replace('_', ' ')}" in text
        assert f"| Objective | {OBJECTIVES[objective]}" in text
        num = num_parameters(tmp_path / "run" / "export" / kind)
        assert f"| Parameters | {num:,} |" in text
        assert f"{summary['flops_paper']:.2e} by the paper's convention" in text
        assert f"6 steps of 4 sequences, {summary['tokens']:,} tokens" in text
        assert "- Trained on sequences of at most 32 tokens. Positions 32 to 39 were" in text
        assert "| ko | wikipedia | 12,345 | 10,000 |" in text
        assert "| CC BY-SA 4.0 | 10,004 |" in text
        assert ModelCard(text).data.to_dict() == {
            "language": ["ko"],
            "library_name": "sentence-transformers" if kind == "encoder" else "transformers",
            "license": "cc-by-sa-4.0",
            "tags": ["electra"],
        }
        assert "| near_duplicate | 2,001 |\n| too_short | 345 |" in text
        assert "| klue-nli | 1,234 | 5 |" in text
        assert "## Scores" not in text
    assert "`ElectraForPreTraining`" in texts["discriminator"]


def test_the_shipped_encoder_recommends_the_recipe_of_its_config():
    path = Path("model/shipped/ko-modern/discriminator/finetuning.json")
    recipe = json.loads(path.read_text(encoding="utf-8"))
    assert recipe == load_config("configs/ko-modern-continued.toml").evaluate.recommended
    assert recipe["recipe"] == "electra"


def test_a_run_with_the_shards_of_another_has_cards_without_the_text(tmp_path):
    text = cards(exported(make_run(tmp_path / "run", PIECES, **SHORT)))["discriminator"]
    assert "## Training text" not in text
    assert "near_duplicate" not in text


def test_scores_come_into_the_cards_of_the_export_that_has_them(tmp_path):
    phases = [{"sequence_length": 20, "steps_fraction": 0.5, "batch_size": 8}]
    config = exported(cleaned_run(tmp_path / "run", curriculum=phases, mlm_steps_fraction=0.5))
    words = (
        "| 3 steps of 8 sequences of 20, then 3 steps of 4 sequences of 32 (the first 3 as a "
        "masked language model), 864 tokens |"
    )
    assert words in cards(config)["discriminator"]
    before, folder = cards(config), tmp_path / "run" / "export"
    digest = input_digest(folder, "export")
    sections = {"Scores of the encoder": ["| task |", "|---|", "| klue-ynat |"]}
    add_sections(config, sections)
    assert cards(config) == before  # nothing was evaluated
    run_stage(evaluate_stage(config, None, {}), lambda target: {})
    add_sections(config, sections)
    for text in cards(config).values():
        assert "\n\n## Scores of the encoder\n\n| task |\n|---|\n| klue-ynat |\n\n" in text
    # the export is as whole and as good for what was made from it as before
    assert input_digest(folder, "export") == digest
    evaluation = read_manifest(tmp_path / "run" / "evaluate")
    evaluation["inputs"]["export"] = "of another"
    write_manifest(tmp_path / "run" / "evaluate", evaluation)
    add_sections(config, sections)
    # the config may have been edited since
    later = {"num_steps": 99, "objective": "mlm", "sequence_length": 16}
    later = {"pretrain": config.pretrain.model_copy(update=later)}
    add_sections(config.model_copy(update=later | {"export": ExportConfig(dtype="float16")}), {})
    assert cards(config) == before
    pretraining = read_manifest(tmp_path / "run" / "pretrain")
    pretraining["config"]["objective"] = "of another version"
    write_manifest(tmp_path / "run" / "pretrain", pretraining)
    add_sections(config, {})
    assert cards(config) == before


def test_an_export_in_half_precision_is_the_other_rounded(tmp_path):
    config = exported(cleaned_run(tmp_path / "run", weight_sharing="gdes"))
    kinds = {"discriminator": ElectraForPreTraining, "generator": ElectraForMaskedLM}
    folder = tmp_path / "run" / "export"
    before = {at: kinds[at].from_pretrained(folder / at).state_dict() for at in kinds}
    assert "| Weights | float32; " in cards(config)["generator"]
    export(config.model_copy(update={"export": ExportConfig(dtype="bfloat16")}), overwrite=True)
    for at, kind in kinds.items():
        after = kind.from_pretrained(folder / at).state_dict()
        assert after.keys() == before[at].keys()
        for weight, values in after.items():
            assert values.dtype == torch.bfloat16
            assert torch.equal(values, before[at][weight].to(torch.bfloat16))
    differences = read_manifest(folder)["counts"]["max_logit_difference"]
    assert all(1e-7 < difference < 1 for difference in differences.values())
    assert "| Weights | bfloat16; " in cards(config)["generator"]


def test_the_recipe_of_the_config_stands_beside_the_encoder(tmp_path):
    config = exported(cleaned_run(tmp_path / "run"))
    path = tmp_path / "run" / "export" / "discriminator" / "finetuning.json"
    assert json.loads(path.read_text()) == {"recipe": "electra"}  # that of its size
    digest = input_digest(path.parent.parent, "export")
    options = EvaluateConfig(recipe="klue", learning_rate=1e-3, seeds=(7,), max_sequence_length=8)
    add_sections(config.model_copy(update={"evaluate": options}), {})
    assert json.loads(path.read_text()) == {"learning_rate": 1e-3, "recipe": "klue"}
    assert input_digest(path.parent.parent, "export") == digest
    # who trains on from it, here with more pieces, inherits that, and passes it on
    networks = {"model": "discriminator", "generator": "generator"}
    initial = {f"initial_{n}": str(path.parents[1] / of) for n, of in networks.items()}
    second = exported(cleaned_run(tmp_path / "second", DOMAIN, **initial))
    for text in cards(second).values():
        assert "| Initial weights | `run/export/discriminator`, `run/export/generator` |" in text
        metadata = ModelCard(text).data
        assert (metadata.license, metadata.license_name) == ("other", "unknown")
        assert "The licence of these weights is not set" in text
        assert metadata.base_model is None
    inherited = Path(second.output_dir) / "export" / "discriminator" / "finetuning.json"
    assert inherited.read_bytes() == path.read_bytes()
    assert recommended_settings(second) == json.loads(path.read_text())
    first, *_ = records_of(tmp_path / "second" / "pretrain")
    assert (first["kind"], first["step"]) == ("valid", 0)  # what it starts from


@pytest.mark.parametrize("place", ["discriminator", "."])
def test_a_start_that_asks_to_share_alike_gives_its_licence(tmp_path, place):
    start = tmp_path / "ko" / "discriminator"
    start.mkdir(parents=True)
    config = make_config(tmp_path / "run", initial_model=str(start))
    heads = {
        "license: cc-by-sa-4.0\n": "cc-by-sa-4.0",
        "language: [ko]\nlicense: gpl-3.0\ntags: [a]\n": "gpl-3.0",
        "license: mit\n": None,  # what it becomes is for the user to say
        "tags: [a]\n": None,
    }
    assert licence_of(config) is None
    for head, licence in heads.items():
        (tmp_path / "ko" / place / "README.md").write_text(f"---\n{head}---\n\nlicense: cc-sa\n")
        assert licence_of(config) == licence
        named = config.model_copy(update={"export": ExportConfig(licence="mit")})
        assert licence_of(named) == "mit"
    assert licence_of(make_config(tmp_path / "run")) is None


def test_a_checkpoint_of_unfinished_work_is_exported_beside_the_run(tmp_path):
    options = {"num_steps": 8, "checkpoint_every_steps": 2, "keep_every_steps": 2}
    config = cleaned_run(tmp_path / "run", **options)
    pretrain(config)
    export(config)
    ends = {path: path.read_bytes() for path in (tmp_path / "run" / "export").rglob("*.*")}
    begun = tmp_path / "run" / "pretrain.partial"
    (tmp_path / "run" / "pretrain").rename(begun)
    (begun / "manifest.json").rename(begun / "plan.json")
    with pytest.raises(ValueError, match=r"export CONFIG --step N .*2, 4, 6, 8"):
        export(config, overwrite=True)
    with pytest.raises(ValueError, match="no checkpoint-3"):
        export(config, step=3)
    export(config, step=4)
    folder = tmp_path / "run" / "export-checkpoint-4"
    text = (folder / "discriminator" / "README.md").read_text()
    assert "| Training | 4 steps of 4 sequences, 512 tokens |" in text
    weights = (folder / "discriminator" / "model.safetensors").read_bytes()
    assert weights != ends[tmp_path / "run" / "export" / "discriminator" / "model.safetensors"]
    assert {path: path.read_bytes() for path in ends} == ends
