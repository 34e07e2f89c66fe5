"""The head of `transformers` on an encoder."""

from typing import Any

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    ElectraConfig,
    ModernBertConfig,
    RobertaConfig,
)

from benchmarks.tasks.heads.linear import EncoderWithHead, fresh_head
from tests.benchmarks.conftest import SIZES


@pytest.mark.parametrize("kind", ["electra", "modern", "bert", "roberta"])
@pytest.mark.parametrize(
    "auto_class",
    [
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
        AutoModelForQuestionAnswering,
    ],
)
def test_the_head_of_transformers_is_its_own_network(kind: str, auto_class: Any) -> None:
    """Put together again, encoder and head give what they gave apart."""
    shape = {**SIZES, "vocab_size": 20, "pad_token_id": 0}
    configs = {
        "electra": ElectraConfig(**shape),
        "modern": ModernBertConfig(**shape, classifier_pooling="mean"),
        "bert": BertConfig(**shape),
        "roberta": RobertaConfig(**shape),
    }
    encoder = AutoModel.from_config(configs[kind])
    generator = torch.Generator().manual_seed(1)
    head = fresh_head(encoder, auto_class, 2, generator)
    names = {name for name, _ in encoder.named_parameters()}
    assert not names & {name for name, _ in head.named_parameters()}
    batch = {"input_ids": torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]])}
    batch["attention_mask"] = (batch["input_ids"] != 0).long()
    batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
    network = EncoderWithHead(encoder, head).eval()
    real = batch["attention_mask"].bool()
    with torch.inference_mode():
        apart = network(batch)
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        whole = head.whole(encoder).eval()(**inputs)
    for name, values in apart.items():
        of_whole = whole[name]
        kept = real if values.ndim > 1 and values.shape[1] == 4 else slice(None)
        torch.testing.assert_close(values[kept], of_whole[kept], atol=1e-6, rtol=0)
