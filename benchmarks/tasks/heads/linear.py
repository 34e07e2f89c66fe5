"""What stands on an encoder: any head, those of one linear layer, and the two together."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.encoder import accepted_inputs, encode
from benchmarks.tasks.pieces import IGNORED_LABEL
from benchmarks.tasks.task import HEAD_DROPOUT

HEAD_INITIALIZER_RANGE = 0.02
_NONE = -1e4  # the logit of a choice that an example does not have
_PARTS_VECTORS = 5  # that the head reads with pooling "parts"


class Head(nn.Module, ABC):
    """What stands on the encoder. Batches hold `input_ids`, `token_type_ids` and `attention_mask`,
    each (B, T), and the kind's `label_arrays`."""

    @abstractmethod
    def forward(self, states: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The states (B, T, H) that the head reads to outputs, each (B, ...)."""

    @abstractmethod
    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """A scalar, the mean over what is learnt in the batch, in fp32."""

    def terms(
        self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """What `loss` is the sum of, each a mean over as many labels as `counts` says."""
        return (self.loss(outputs, batch),)

    def counts(self, batch: Mapping[str, Tensor]) -> tuple[int, ...]:
        """By default rows."""
        return (len(batch["input_ids"]),)


class LinearHead(Head):
    """Dropout and one linear layer, learnt from `labels`, (B,) or (B, T), by cross-entropy.

    Pooling says what it reads of the hidden states: "cls", that of the first token, as the paper's
    code; "mean", the mean of all real tokens, as that of [CLS], which pretraining never replaces,
    for a long time carries no content; "parts", that mean m and the means a and b of two parts of
    a row, [m, a, b, |a - b|, a * b] (Conneau et al. 2017; Baldini Soares et al. 2019): what stands
    between each pair of `markers`, else the two texts of a pair; "none", every state.
    """

    def __init__(
        self,
        encoder: nn.Module,
        num_outputs: int,
        generator: torch.Generator,
        pooling: Literal["cls", "mean", "parts", "none"] = "cls",
        markers: Sequence[tuple[int, int]] = (),
    ) -> None:
        super().__init__()
        config: Any = encoder.config
        self.pooling = pooling
        self.markers = markers
        self.dropout = nn.Dropout(HEAD_DROPOUT)
        num_vectors = _PARTS_VECTORS if pooling == "parts" else 1
        self.linear = nn.Linear(num_vectors * config.hidden_size, num_outputs)
        nn.init.normal_(self.linear.weight, std=HEAD_INITIALIZER_RANGE, generator=generator)
        nn.init.zeros_(self.linear.bias)

    def forward(self, states: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`logits` (B, outputs), or (B, T, outputs) without pooling."""
        return {"logits": self.linear(self.dropout(self._pooled(states, batch)))}

    def _pooled(self, states: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """What the linear layer reads: (B, its inputs), or the states without pooling."""
        match self.pooling:
            case "none":
                return states
            case "cls":
                return states[:, 0]
        mean = mean_state(states, batch["attention_mask"])
        if self.pooling == "mean":
            return mean
        first, second = (mean_state(states, part) for part in self._parts(batch))
        return torch.cat([mean, first, second, (first - second).abs(), first * second], dim=-1)

    def _parts(self, batch: Mapping[str, Tensor]) -> list[Tensor]:
        real = batch["attention_mask"].bool()
        if not self.markers:
            return [real & (batch["token_type_ids"] == part) for part in (0, 1)]
        ids = batch["input_ids"]
        return [
            real & ((ids == opening).cumsum(dim=1) > (ids == closing).cumsum(dim=1))
            for opening, closing in self.markers
        ]

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy, the mean over all labels that are not `IGNORED_LABEL`."""
        logits = outputs["logits"].float().flatten(0, -2)
        return F.cross_entropy(logits, batch["labels"].flatten(), ignore_index=IGNORED_LABEL)

    def counts(self, batch: Mapping[str, Tensor]) -> tuple[int, ...]:
        return (int((batch["labels"] != IGNORED_LABEL).sum()),)


def mean_state(states: Tensor, mask: Tensor) -> Tensor:
    """The mean (B, H) of the states (B, T, H) of a mask (B, T); zeros where it has none."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


class RegressionHead(LinearHead):
    """One output on a pooled state, learnt by the mean squared error to `values` (B,)."""

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Mean over the rows."""
        return F.mse_loss(outputs["logits"].float().squeeze(-1), batch["values"])

    counts = Head.counts


class MultiLabelHead(LinearHead):
    """An output for each label, learnt from `label_sets` (B, labels) by binary cross-entropy."""

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Mean over rows and labels."""
        logits = outputs["logits"].float()
        return F.binary_cross_entropy_with_logits(logits, batch["label_sets"])

    counts = Head.counts


class ChoiceHead(LinearHead):
    """A score for each choice of an example, learnt from `labels` (B,) by the cross-entropy of a
    softmax over the choices. The encoder reads (choices of all examples, T)."""

    def forward(self, states: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`logits` (B, choices of the example that has most); places without one have `_NONE`."""
        scores = super().forward(states, batch)["logits"].squeeze(-1)
        counts = batch["num_choices"]
        places = torch.arange(int(counts.max()), device=counts.device)
        is_choice = places < counts.unsqueeze(-1)
        logits = torch.full(is_choice.shape, _NONE, dtype=scores.dtype, device=scores.device)
        return {"logits": logits.masked_scatter(is_choice, scores)}


class EncoderWithHead(nn.Module):
    def __init__(self, encoder: nn.Module, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self._inputs = accepted_inputs(encoder)

    def forward(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A batch to the head's outputs."""
        outputs: dict[str, Tensor] = self.head(encode(self.encoder, batch, self._inputs), batch)
        return outputs

    def train(self, mode: bool = True) -> Self:
        """As `nn.Module.train`; an encoder of which nothing is learnt keeps its dropout off."""
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.encoder.parameters()):
            self.encoder.eval()
        return self

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


Built = TypeVar("Built")


def seeded(build: Callable[[], Built], generator: torch.Generator) -> Built:
    """What `build` makes, its random numbers drawn by `generator`; the global state stays as is."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):  # modules are built on the CPU
        torch.manual_seed(seed)
        return build()
