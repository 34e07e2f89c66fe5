"""Any checkpoint of a run is a `transformers` folder with its tokenizer: it can be scored."""

import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from electrify.cli import main
from model.electra import ElectraPretrainer
from model.export import export_checkpoint
from model.pretrain import Trainer
from model.train.checkpoint import load_model
from model.train.data import SequenceData
from tests.model.conftest import SPECIAL, VOCAB_SIZE
from vocab.tokenizer import tokenizer_sha256


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


@pytest.mark.parametrize("place", ["pretrain.partial", "pretrain"])
def test_a_checkpoint_is_scored_by_its_name(run, tmp_path, capsys, place):
    """Also by the name that it has once the run is finished, and then by that it had before."""
    data = tmp_path / "data" / "CoLA"
    data.mkdir(parents=True)
    for name in ("train", "dev"):
        rows = "".join(f"x\t{n % 2}\t\tw{n % 7} w{n % 5}\n" for n in range(12))
        (data / f"{name}.tsv").write_text(rows)
    checkpoint = run / place / "checkpoint-8"
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
