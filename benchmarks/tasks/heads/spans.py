"""Heads that say where an answer starts and ends."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.tasks.heads.linear import HEAD_INITIALIZER_RANGE, Head

JOINT_HIDDEN_SIZE = 512  # google-research/electra finetune/qa/qa_tasks.py, whatever the encoder's
# of the joint head's hidden layer at once, (rows, K, T, 512): 8 MB in fp32. From 32 MB on, a CPU
# spends two thirds of its time on fresh pages
_MAX_HIDDEN_VALUES = 2**21
_MASKED = -1000.0  # added to logits: small enough in bf16 too, and finite


class SpanHead(Head):
    """One linear layer, a start and an end logit of each piece; "no answer" is the first piece.

    The head of KLUE-baseline and `transformers` (`ElectraForQuestionAnswering`): no dropout.
    Padding is masked, which it is not there, so that a row's outputs do not hang on its batch; the
    question is not. Learns from `start` and `end` (B,), 0 where the window has no answer.
    """

    def __init__(self, encoder: nn.Module, generator: torch.Generator) -> None:
        super().__init__()
        config: Any = encoder.config
        self.linear = nn.Linear(config.hidden_size, 2)
        nn.init.normal_(self.linear.weight, std=HEAD_INITIALIZER_RANGE, generator=generator)
        nn.init.zeros_(self.linear.bias)

    def forward(self, states: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`start_logits` and `end_logits`, each (B, T)."""
        padding = _MASKED * (1 - batch["attention_mask"]).float()
        start, end = self.linear(states).float().unbind(dim=-1)
        return {"start_logits": start + padding, "end_logits": end + padding}

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Mean over rows of the mean cross-entropy of start and end."""
        return _boundary_loss(outputs, batch)


class JointHead(Head):
    """The paper's head: ends are predicted for a start, and a classifier says "no answer".

    After google-research/electra finetune/qa/qa_tasks.py `get_prediction_module`. The score of an
    end reads the state of the start too, through a hidden layer: in training that of the right
    start, else those of the `beam_size` best starts, each with its `beam_size` best ends. The
    classifier reads the state of [CLS] and the mean state weighed by the probabilities of starts.

    Learns from `start` and `end` (B,), 0 where the window has no answer, and with a classifier from
    `impossible` (B,): the question has no answer, in whatever window.
    """

    def __init__(
        self,
        encoder: nn.Module,
        generator: torch.Generator,
        beam_size: int = 20,
        answerable_weight: float | None = 0.5,
    ) -> None:
        """`answerable_weight` is that of the classifier's loss; None builds no classifier."""
        super().__init__()
        config: Any = encoder.config
        size = config.hidden_size
        self.beam_size = beam_size
        self.answerable_weight = answerable_weight
        self.start = nn.Linear(size, 1)
        self.end_hidden = nn.Linear(2 * size, JOINT_HIDDEN_SIZE)  # on the states of start and end
        self.end = nn.Linear(JOINT_HIDDEN_SIZE, 1)
        if answerable_weight is not None:
            self.answerable_hidden = nn.Linear(2 * size, JOINT_HIDDEN_SIZE)
            self.answerable = nn.Linear(JOINT_HIDDEN_SIZE, 1)
        for layer in self.children():
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight, generator=generator)  # TensorFlow's default
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """In training `start_logits` and `end_logits` (B, T), the ends behind the right starts.

        Else the beam: `start_index` and `start_log_probs` (B, K), `end_index` and `end_log_probs`
        (B, K, K), log-probabilities of an end given the start. With a classifier
        `impossible_logit` (B,) in both.
        """
        mask = _MASKED * (~batch["answer_mask"]).float()
        start_logits = self.start(states).squeeze(-1).float() + mask
        outputs: dict[str, Tensor] = {}
        if self.training:
            ends = self._end_logits(states, batch["start"].unsqueeze(1)).squeeze(1) + mask
            outputs |= {"start_logits": start_logits, "end_logits": ends}
        else:
            outputs |= self._beam(states, start_logits, mask)
        if self.answerable_weight is not None:
            outputs["impossible_logit"] = self._impossible_logit(states, start_logits)
        return outputs

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Mean over rows of the mean cross-entropy of start and end, and of the classifier's."""
        loss = _boundary_loss(outputs, batch)
        if self.answerable_weight is not None:
            logits, impossible = outputs["impossible_logit"], batch["impossible"].float()
            classifier = F.binary_cross_entropy_with_logits(logits, impossible)
            loss = loss + self.answerable_weight * classifier
        return loss

    def _end_logits(self, states: Tensor, starts: Tensor) -> Tensor:
        """Logits (B, K, T) of every end, given each of the start positions (B, K). The hidden layer
        is linear in the two states, so each is multiplied once, not K x T pairs."""
        size = states.shape[-1]
        of_starts, of_ends = torch.split(self.end_hidden.weight, size, dim=1)
        start_states = states.gather(1, starts.unsqueeze(-1).expand(-1, -1, size))
        hidden = F.linear(start_states, of_starts).unsqueeze(2)
        hidden = hidden + F.linear(states, of_ends, self.end_hidden.bias).unsqueeze(1)
        logits: Tensor = self.end(F.gelu(hidden)).squeeze(-1).float()
        return logits

    def _beam(self, states: Tensor, start_logits: Tensor, mask: Tensor) -> dict[str, Tensor]:
        length = states.shape[1]
        size = min(self.beam_size, length)
        starts = start_logits.log_softmax(dim=-1).topk(size)
        num_rows = max(1, _MAX_HIDDEN_VALUES // (size * length * JOINT_HIDDEN_SIZE))
        parts = zip(
            torch.split(states, num_rows), torch.split(starts.indices, num_rows), strict=True
        )
        logits = torch.cat([self._end_logits(rows, chosen) for rows, chosen in parts])
        ends = (logits + mask.unsqueeze(1)).log_softmax(dim=-1).topk(size)
        return {
            "start_index": starts.indices,
            "start_log_probs": starts.values,
            "end_index": ends.indices,
            "end_log_probs": ends.values,
        }

    def _impossible_logit(self, states: Tensor, start_logits: Tensor) -> Tensor:
        probabilities = start_logits.softmax(dim=-1).to(states.dtype)
        start_state = torch.einsum("bt,bth->bh", probabilities, states)
        hidden = F.gelu(self.answerable_hidden(torch.cat([states[:, 0], start_state], dim=-1)))
        logit: Tensor = self.answerable(hidden).squeeze(-1).float()
        return logit


def _boundary_loss(outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
    start = F.cross_entropy(outputs["start_logits"].float(), batch["start"])
    end = F.cross_entropy(outputs["end_logits"].float(), batch["end"])
    return (start + end) / 2
