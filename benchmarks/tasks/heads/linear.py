"""Heads of labels, tags and spans: one linear layer, those that `transformers` has for a network,
the paper's head of spans; and an encoder with its head."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_outputs import BaseModelOutputWithPooling

from benchmarks.encoder import accepted_inputs, encode
from benchmarks.tasks.features import IGNORED_LABEL
from benchmarks.tasks.task import HEAD_DROPOUT
from electrify.config.evaluate import Pooling

HEAD_INITIALIZER_RANGE = 0.02
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


class LabelHead(Head):
    """Logits of labels or of a number. As `transformers`' heads, it learns from `labels`, (B,) or
    (B, T), by cross-entropy, from `values` (B,) by the squared error, or from `label_sets`
    (B, labels) by binary cross-entropy."""

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """The mean over rows, over rows and labels, or over labels that are not `IGNORED_LABEL`."""
        logits = outputs["logits"].float()
        if "values" in batch:
            return F.mse_loss(logits.squeeze(-1), batch["values"])
        if "label_sets" in batch:
            return F.binary_cross_entropy_with_logits(logits, batch["label_sets"])
        labels = batch["labels"].flatten()
        return F.cross_entropy(logits.flatten(0, -2), labels, ignore_index=IGNORED_LABEL)

    def counts(self, batch: Mapping[str, Tensor]) -> tuple[int, ...]:
        if "labels" not in batch:
            return super().counts(batch)
        return (int((batch["labels"] != IGNORED_LABEL).sum()),)


class LinearHead(LabelHead):
    """Dropout and one linear layer.

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
        pooling: Pooling | Literal["none"] = "cls",
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


def mean_state(states: Tensor, mask: Tensor) -> Tensor:
    """The mean (B, H) of the states (B, T, H) of a mask (B, T); zeros where it has none."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def fresh_head(
    encoder: nn.Module, auto_class: Any, num_labels: int, generator: torch.Generator
) -> "AutoHead":
    """The head of one of `transformers`' `AutoModelFor...`, weights drawn as that class has it."""
    config: Any = copy.deepcopy(encoder.config)
    config.num_labels = num_labels
    config.classifier_dropout = HEAD_DROPOUT
    fresh = partial(auto_class.from_config, config, dtype=torch.float32)
    return AutoHead(seeded(fresh, generator), encoder)


class AutoHead(LabelHead):
    """What `transformers` itself puts on the encoder for labels, tags or spans, such as
    `ModernBertForSequenceClassification`: that class with the encoder taken out, so that an encoder
    fine-tuned with this head is a network that everything opens (`whole`)."""

    def __init__(self, network: Any, encoder: nn.Module) -> None:
        """Of a network of `transformers`, whose own encoder is left out."""
        super().__init__()
        self.network = network
        self._states = _GivenStates(encoder)
        setattr(self.network, self.network.base_model_prefix, self._states)

    def forward(self, states: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`logits` (B, labels) or (B, T, labels), or `start_logits` and `end_logits`, (B, T) each,
        with padding masked."""
        self._states.given = states
        mask = batch["attention_mask"]
        outputs = self.network(input_ids=batch["input_ids"], attention_mask=mask)
        self._states.given = None
        if "logits" in outputs:
            return {"logits": outputs.logits}
        padding = _MASKED * (1 - mask).float()
        names = "start_logits", "end_logits"
        return {name: outputs[name].float() + padding for name in names}

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """As every head's of labels; of spans as `SpanHead`'s."""
        if "logits" in outputs:
            return super().loss(outputs, batch)
        return _boundary_loss(outputs, batch)

    def whole(self, encoder: nn.Module) -> Any:
        """The network of `transformers` with the encoder in its place; this head is used up."""
        setattr(self.network, self.network.base_model_prefix, encoder)
        return self.network


class _GivenStates(nn.Module):
    """Stands for an encoder that has run already."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.given: Tensor | None = None
        self._pooler = (getattr(encoder, "pooler", None),)  # of BERT; no module of the head

    def forward(self, *args: Any, **kwargs: Any) -> BaseModelOutputWithPooling:
        (pooler,), states = self._pooler, self.given
        pooled = pooler(states) if pooler is not None else None
        return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=pooled)


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
