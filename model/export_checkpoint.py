"""The main network of any one checkpoint as a `transformers` folder, a run still going or not."""

import shutil
from pathlib import Path

from transformers import AutoTokenizer

from electrify.stages import run_folder
from model.checkpoint import DAMAGES, load_model, read_state, trained_options
from model.data import open_shards, special_tokens
from model.electra import ElectraPretrainer
from model.transformers_names import to_transformers

_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt")


def export_checkpoint(checkpoint: Path, folder: Path) -> None:
    """Write weights, config and tokenizer of `checkpoint-<step>/` into `folder`.

    Text and vocabulary are looked for in the checkpoint's run, two folders up. Raises `ValueError`
    where they are not there or not those it was trained with, and for a damaged checkpoint.
    """
    run = run_folder(checkpoint)
    try:
        identity = read_state(checkpoint)["identity"]
        config = trained_options(identity)
        expected = str(identity["tokenizer_sha256"])
    except DAMAGES as error:
        raise ValueError(f"{checkpoint} is damaged ({error}); name another one") from None
    shards = open_shards(run / "shards", [])  # compares them with the vocabulary beside
    if shards.tokenizer_sha256 != expected:
        raise ValueError(
            f"{run / 'shards'} was made with another vocabulary than {checkpoint}: put the old one "
            "back"
        )
    model = ElectraPretrainer(config, shards.vocab_size, special_tokens(shards)).eval()
    load_model(checkpoint, model)
    to_transformers(model, "discriminator").save_pretrained(folder)
    save_tokenizer(run / "vocab", config.max_position_embeddings, folder)


def save_tokenizer(vocab: Path, max_length: int, folder: Path) -> None:
    """The tokenizer with the model's length; the very files that encoded the corpus, whatever
    `save_pretrained` made of them."""
    tokenizer = AutoTokenizer.from_pretrained(vocab)
    tokenizer.model_max_length = max_length
    tokenizer.save_pretrained(folder)
    for name in _TOKENIZER_FILES:
        shutil.copyfile(vocab / name, folder / name)
