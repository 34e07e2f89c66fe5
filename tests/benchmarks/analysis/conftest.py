"""The small discriminator with its generator, and networks whose verdict is planted."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.analysis.reader import Reader, open_reader


@pytest.fixture(scope="session")
def reader(model_folder: Path, generator_folder: Path) -> Reader:
    return open_reader(str(model_folder), str(generator_folder))


class Planted(nn.Module):
    """Each id has a weight; the logit of a piece is twice its own weight, and that of all others
    once. Linear, so each word's part is known."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.embeddings = nn.Embedding.from_pretrained(weights[:, None], freeze=False)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        own = self.embeddings(input_ids)[..., 0]
        return SimpleNamespace(logits=own + own.sum(1, keepdim=True))


@pytest.fixture
def plant(reader: Reader) -> Callable[[Mapping[str, float]], Reader]:
    def planted(weights: Mapping[str, float]) -> Reader:
        tokenizer = reader.source.tokenizer
        table = torch.zeros(len(tokenizer))
        for token, weight in weights.items():
            table[tokenizer.convert_tokens_to_ids(token)] = weight
        return replace(reader, discriminator=Planted(table))

    return planted
