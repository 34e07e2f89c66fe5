"""The exported folders load in transformers alone and equal the model of any checkpoint."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoModel,
    AutoTokenizer,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    PreTrainedTokenizerFast,
)

from electrify.cli import main
from electrify.config.pretrain import PretrainConfig
from model import export as example_module
from model.electra import ElectraPretrainer
from model.export import (
    export_checkpoint,
    format_example,
    gives_probabilities,
    mark_example,
    read_example,
    verify,
)
from model.pretrain import Trainer
from model.train.checkpoint import load_model, model_tensors
from model.train.data import SequenceData
from model.weights.names import (
    exported_networks,
    name_pairs,
    renamed,
    tie,
    to_our_names,
    to_transformers,
    untie,
)
from tests.model.conftest import OBJECTIVES, SPECIAL, VARIANTS, VOCAB_SIZE
from vocab.tokenizer import tokenizer_sha256

# the folders of an export, and what the networks in them do
WITH_GENERATOR = {"discriminator": "detects", "generator": "predicts"}
FOLDERS = dict.fromkeys(VARIANTS, WITH_GENERATOR) | {
    "uniform": {"discriminator": "detects"},
    "electric": {"discriminator": "detects"},
    "electric none": {"discriminator": "detects"},
    "electric uniform": {"discriminator": "detects"},
    "mlm": {"discriminator": "predicts"},
    "replace-mlm": {"discriminator": "predicts", "generator": "predicts"},
    "replace-mlm gdes": {"discriminator": "predicts", "generator": "predicts"},
    "all-tokens-mlm": WITH_GENERATOR | {"language_model": "predicts"},
    "all-tokens-mlm all": WITH_GENERATOR | {"language_model": "predicts"},
}


def make(config, data, **options: object) -> ElectraPretrainer:
    """A model with random weights everywhere, biases too, so that a lost one shows."""
    options = config.pretrain.model_dump(mode="json") | options
    pretrain = PretrainConfig.model_validate_json(json.dumps(options))
    torch.manual_seed(5)
    model = ElectraPretrainer(pretrain, data.vocab_size, data.special).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def save(model: ElectraPretrainer, folder: Path) -> None:
    for network in exported_networks(model.config):
        to_transformers(model, network.folder).save_pretrained(folder / network.folder)


@pytest.fixture
def inputs(data) -> tuple[torch.Tensor, torch.Tensor]:
    batch = data.batch(0, 3)
    return batch.input_ids, batch.token_type_ids


@pytest.mark.parametrize("name", VARIANTS)
def test_every_objective_equals_its_export(config, data, inputs, tmp_path, name):
    folders = FOLDERS[name]
    model = make(config, data, **VARIANTS[name])
    save(model, tmp_path / "export")
    assert {p.name for p in (tmp_path / "export").iterdir()} == folders.keys()
    differences = verify(model, tmp_path / "export", *inputs)
    assert differences.keys() == folders.keys()
    # in double precision equal networks are equal, but for the rounding of summed tables
    summed = model.config.weight_sharing == "gdes"
    assert max(differences.values()) < (1e-6 if summed else 1e-10)
    ids, types = inputs
    everywhere = torch.arange(ids.shape[1]).expand(len(ids), -1)
    ours = {
        ("discriminator", "detects"): lambda: model.discriminate(ids, types),
        ("discriminator", "predicts"): lambda: model.predict(ids, types, everywhere),
        ("generator", "predicts"): lambda: model.generate(ids, types, everywhere),
        ("language_model", "predicts"): lambda: model.predict(ids, types, everywhere),
    }
    for folder, head in folders.items():
        kind = ElectraForPreTraining if head == "detects" else ElectraForMaskedLM
        theirs = kind.from_pretrained(tmp_path / "export" / folder)
        with torch.no_grad():
            logits = theirs(input_ids=ids, token_type_ids=types).logits
            expected = ours[folder, head]()
        assert (logits - expected).abs().max() < 1e-4 * expected.abs().max()
        assert type(theirs).__name__ in theirs.config.architectures


@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_is_lost_on_the_way_there_and_back(config, data, name):
    """Every weight has one name there; only towers and the baseline have none."""
    model = make(config, data, **VARIANTS[name])
    state = model_tensors(model)
    weights = untie(state, model.config)
    back = {}
    for network in exported_networks(model.config):
        depth = to_transformers(model, network.folder).config.num_hidden_layers
        pairs = name_pairs(network, depth)
        back |= to_our_names(renamed(weights, pairs), pairs)
    left = {name.split(".")[0] for name in weights.keys() - back.keys()}
    expected = {
        "electra-adversarial": {"baseline"},
        "adversarial all": {"baseline"},
        "electric": {"generator", "generator_head", "generator_embeddings"},
        "electric none": {"generator", "generator_head", "generator_embeddings"},
    }
    assert left == expected.get(name, set())
    again = tie(weights | back, model.config)
    assert again.keys() == state.keys()
    for key, tensor in state.items():
        torch.testing.assert_close(again[key], tensor, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("part", "folder", "difference"),
    [
        ("discriminator.layers.0.output.bias", "discriminator", 0.01),
        ("generator_head.bias", "generator", float("nan")),
        ("language_head.norm.bias", "language_model", 0.01),
    ],
)
def test_a_difference_is_refused(config, data, inputs, tmp_path, part, folder, difference):
    model = make(config, data, **VARIANTS["all-tokens-mlm"])
    save(model, tmp_path)
    with torch.no_grad():
        model.get_parameter(part)[0] += difference
    with pytest.raises(ValueError, match=f"exported {folder} differs from the trained one"):
        verify(model, tmp_path, *inputs)


def test_only_a_detection_head_marks_an_example(config, data):
    configs = {
        name: make(config, data, objective=name, **OBJECTIVES[name]).config for name in OBJECTIVES
    }
    marks = {name for name in OBJECTIVES if gives_probabilities(configs[name])}
    assert OBJECTIVES.keys() - marks == {"electric", "mlm", "replace-mlm"}
    assert read_example(config) is None


def test_the_example_marks_the_replaced_word(config, data, tmp_path, monkeypatch):
    save(make(config, data), tmp_path)
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "봄",
        "##이",
        "꽃",
        "금리",
        "##가",
        "핀다",
    ]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")
    fast.save_pretrained(tmp_path / "discriminator")
    monkeypatch.setitem(example_module.EXAMPLES, "ko", ("봄이 꽃이 핀다", "봄이 금리가 핀다"))
    example = mark_example(tmp_path / "discriminator", "ko")
    replaced = [t["token"] for t in example["tokens"] if t["replaced"]]
    assert replaced == ["금리", "##가"]
    assert "[금리]" in format_example(example)
    discriminator = ElectraForPreTraining.from_pretrained(tmp_path / "discriminator")
    ids = torch.tensor([[2, 5, 6, 8, 9, 10, 3]])
    with torch.no_grad():
        expected = discriminator(input_ids=ids).logits[0].sigmoid()
    assert [t["probability"] for t in example["tokens"]] == pytest.approx(
        expected.tolist(), abs=1e-4
    )


@pytest.fixture
def run(config, tmp_path) -> Path:
    """A run stopped before its end, with a vocabulary beside it."""
    pieces = [*SPECIAL, *(f"w{n}" for n in range(VOCAB_SIZE - len(SPECIAL)))]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", SPECIAL["[CLS]"]), ("[SEP]", SPECIAL["[SEP]"])],
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    tokens = dict(zip(names, SPECIAL, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens).save_pretrained(
        tmp_path / "vocab"
    )
    (tmp_path / "vocab" / "vocab.txt").write_text("\n".join(pieces) + "\n")
    index = tmp_path / "shards" / "index.json"
    index.write_text(index.read_text().replace("0" * 64, tokenizer_sha256(tmp_path / "vocab")))
    partial = tmp_path / "pretrain.partial"
    partial.mkdir()
    Trainer(config, partial).run()
    return tmp_path


def test_the_encoder_is_that_of_the_checkpoint(run, config, tmp_path):
    target = tmp_path / "exported"
    checkpoint = run / "pretrain.partial" / "checkpoint-8"
    export_checkpoint(checkpoint, target)
    data = SequenceData.from_config(config, "train")
    model = ElectraPretrainer(config.pretrain, data.vocab_size, data.special).eval()
    load_model(checkpoint, model)
    theirs = AutoModel.from_pretrained(target)
    expected = model.embeddings.word.weight
    assert torch.equal(theirs.embeddings.word_embeddings.weight, expected)
    assert AutoTokenizer.from_pretrained(target).model_max_length == 40
    vocab = run / "vocab" / "tokenizer.json"
    assert (target / "tokenizer.json").read_bytes() == vocab.read_bytes()


def test_what_it_was_trained_with_must_be_there(run, tmp_path):
    checkpoint = run / "pretrain.partial" / "checkpoint-12"
    (checkpoint / "state.json").write_text("{}")
    with pytest.raises(ValueError, match="checkpoint-12 is damaged"):
        export_checkpoint(checkpoint, tmp_path / "a")
    shutil.rmtree(run / "shards")
    with pytest.raises(ValueError, match="shards"):
        export_checkpoint(run / "pretrain.partial" / "checkpoint-8", tmp_path / "b")


def test_a_checkpoint_is_scored_by_its_name(run, tmp_path, capsys):
    """By that which it has once the run is finished, also before."""
    data = tmp_path / "data" / "CoLA"
    data.mkdir(parents=True)
    for name in ("train", "dev"):
        rows = "".join(f"x\t{n % 2}\t\tw{n % 7} w{n % 5}\n" for n in range(12))
        (data / f"{name}.tsv").write_text(rows)
    checkpoint = run / "pretrain" / "checkpoint-8"
    words = ["evaluate", "configs/demo.toml", "--model", str(checkpoint), "--data-dir", str(data)]
    for override in (
        f"output_dir='{tmp_path / 'out'}'",
        'evaluate.tasks=["glue-cola"]',
        "evaluate.seeds=[0]",
        "evaluate.num_epochs=1.0",
        "evaluate.random_init_control=false",
        "evaluate.max_sequence_length=16",
        "evaluate.device='cpu'",
    ):
        words += ["--set", override]
    assert main(words) == 0
    (folder,) = (tmp_path / "out").glob("evaluate-*")
    assert f'"model_path":"{checkpoint}"' in (folder / "results.jsonl").read_text()
    (run / "pretrain.partial").rename(run / "pretrain")
    assert main(words) == 0
    assert "done already" in capsys.readouterr().err
