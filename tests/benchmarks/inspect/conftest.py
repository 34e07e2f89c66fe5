"""A generator beside the small discriminator, and networks whose verdict is planted."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import ElectraConfig, ElectraForMaskedLM, PreTrainedTokenizerFast

from benchmarks.inspect.verdict import Detector, open_detector


@pytest.fixture(scope="session")
def generator_folder(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerFast
) -> Path:
    folder = tmp_path_factory.mktemp("other") / "generator"
    config = ElectraConfig(
        vocab_size=len(tokenizer),
        embedding_size=16,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    with torch.random.fork_rng():
        torch.manual_seed(12)
        ElectraForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def detector(model_folder: Path, generator_folder: Path) -> Detector:
    return open_detector(str(model_folder), str(generator_folder))


class Planted(nn.Module):
    """Each id has a weight; the logit of a piece is twice its own weight, and that of all others
    once. Linear, so each word's share is known."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.embeddings = nn.Embedding.from_pretrained(weights[:, None], freeze=False)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embeddings

    def forward(self, input_ids: Tensor) -> Any:
        own = self.embeddings(input_ids)[..., 0]
        return SimpleNamespace(logits=own + own.sum(1, keepdim=True))


@pytest.fixture
def plant(detector: Detector) -> Callable[[Mapping[str, float]], Detector]:
    def planted(weights: Mapping[str, float]) -> Detector:
        tokenizer = detector.source.tokenizer
        table = torch.zeros(len(tokenizer))
        for token, weight in weights.items():
            table[tokenizer.convert_tokens_to_ids(token)] = weight
        return replace(detector, discriminator=Planted(table))

    return planted
