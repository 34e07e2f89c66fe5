"""The two heads that KLUE has of its own: the dependency parser and the slot generator.

The parser is an encoder over words, a decoder and two biaffine scores: Park et al. 2021 (KLUE),
after Fernandez-Gonzalez and Gomez-Rodriguez 2019 (left-to-right pointers) and Dozat and Manning
2017 (biaffine scores); sizes as in klue_baseline/models/dependency_parsing.py. The slot generator
of the Wizard of Seoul is TRADE (Wu et al. 2019) over hidden states, with all slots decoded side by
side (klue_baseline/models/dialogue_state_tracking.py, --parallel_decoding).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.tasks.dialogue import GATES, GENERATED
from benchmarks.tasks.heads.linear import Head
from benchmarks.tasks.trees import NO_WORD

LSTM_SIZE, ARC_SIZE, LABEL_SIZE, POS_SIZE = 768, 512, 256, 256
PARSER_DROPOUT = 0.33
_IMPOSSIBLE = -1e8  # score of a head that is padding


class Biaffine(nn.Module):
    """x U y + V x + W y + b for every pair of a left vector x and a right vector y."""

    def __init__(self, size: int, num_outputs: int) -> None:
        super().__init__()
        self.pair = nn.Parameter(torch.empty(num_outputs, size, size))
        self.left = nn.Parameter(torch.empty(num_outputs, size))
        self.right = nn.Parameter(torch.empty(num_outputs, size))
        self.bias = nn.Parameter(torch.zeros(num_outputs))
        for weight in (self.pair, self.left, self.right):
            nn.init.xavier_uniform_(weight)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """(B, M, D) and (B, N, D) to (B, outputs, M, N)."""
        # (B, M, outputs, D) first: a pair then costs no more than a dot product
        scores = torch.einsum("bmi,oij->bmoj", left, self.pair)
        scores = torch.einsum("bmoj,bnj->bomn", scores, right)
        scores = scores + F.linear(left, self.left).transpose(1, 2).unsqueeze(3)
        scores = scores + F.linear(right, self.right).transpose(1, 2).unsqueeze(2)
        return scores + self.bias[:, None, None]


class Parser(Head):
    """Scores of every head of every word, and the best label of every such arc.

    Words are the states of their first and last piece, with the embedding of their POS tag; [CLS]
    twice is the root. It reads `first`, `last` (B, W) piece positions, `pos` (B, W + 1) with the
    root in front and `num_words` (B,), and learns from `heads` and `arc_labels` (B, W), `NO_WORD`
    where there is none. All in fp32. In the official code a head that is padding scores 0 and may
    win; here it cannot.
    """

    def __init__(self, state_size: int, num_labels: int, num_tags: int) -> None:
        super().__init__()
        self.pos_embedding = nn.Embedding(num_tags + 1, POS_SIZE)
        word_size = 2 * state_size + POS_SIZE
        self.encoder = nn.LSTM(word_size, LSTM_SIZE, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(LSTM_SIZE, LSTM_SIZE, batch_first=True)
        self.dropout = nn.Dropout1d(PARSER_DROPOUT)
        self.to_decoder = nn.Linear(2 * LSTM_SIZE, LSTM_SIZE)
        self.to_memory = nn.Linear(2 * LSTM_SIZE, LSTM_SIZE)
        self.arc_head = nn.Linear(2 * LSTM_SIZE, ARC_SIZE)
        self.arc_word = nn.Linear(LSTM_SIZE, ARC_SIZE)
        self.label_head = nn.Linear(2 * LSTM_SIZE, LABEL_SIZE)
        self.label_word = nn.Linear(LSTM_SIZE, LABEL_SIZE)
        self.arc = Biaffine(ARC_SIZE, 1)
        self.label = Biaffine(LABEL_SIZE, num_labels)

    def forward(self, states: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`arc_scores` (B, W, W + 1) of the heads of each word; training: `label_scores`
        (B, W, labels) of the arcs from the gold heads; else: `best_labels` (B, W, W + 1) of all."""
        with torch.autocast(states.device.type, enabled=False):
            heads, words = self._vectors(states.float(), batch)
            is_head = _is_word(batch["num_words"] + 1, heads.shape[1])  # (B, W + 1)
            arc_scores = self.arc(F.elu(self.arc_word(words)), F.elu(self.arc_head(heads)))
            outputs = {
                "arc_scores": arc_scores.squeeze(1).masked_fill(~is_head[:, None], _IMPOSSIBLE)
            }
            # of every pair: labels x (W + 1) numbers a word, little beside the product before them
            scores = self.label(F.elu(self.label_word(words)), F.elu(self.label_head(heads)))
            if not self.training:
                return outputs | {"best_labels": scores.argmax(dim=1)}
            index = batch["heads"].clamp(min=0)[:, None, :, None]  # (B, 1, W, 1)
            gold = scores.gather(3, index.expand(-1, scores.shape[1], -1, -1)).squeeze(3)
            return outputs | {"label_scores": gold.transpose(1, 2)}

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        arcs = F.cross_entropy(
            outputs["arc_scores"].flatten(0, 1),
            batch["heads"].flatten(),
            ignore_index=NO_WORD,
            reduction="sum",
        )
        labels = F.cross_entropy(
            outputs["label_scores"].flatten(0, 1),
            batch["arc_labels"].flatten(),
            ignore_index=NO_WORD,
            reduction="sum",
        )
        return (arcs + labels) / max(*self.counts(batch), 1)

    def counts(self, batch: Mapping[str, Tensor]) -> tuple[int, ...]:
        return (int((batch["heads"] != NO_WORD).sum()),)

    def _vectors(self, states: Tensor, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The root and the words as heads (B, W + 1, 2 L), and the words looking for one (B, W, L).
        Packing asks for the lengths on the CPU: one synchronisation a batch."""
        rows = torch.arange(len(states), device=states.device)[:, None]
        root = states[:, :1]
        pieces = torch.cat((states[rows, batch["first"]], states[rows, batch["last"]]), dim=2)
        words = torch.cat((torch.cat((root, root), dim=2), pieces), dim=1)
        # drops the tag of a whole word, the channel of Dropout1d being the word
        words = torch.cat((words, self.dropout(self.pos_embedding(batch["pos"]))), dim=2)
        lengths = batch["num_words"].clamp(min=1).cpu()
        width = batch["first"].shape[1]
        encoded, (_, memory) = _run(self.encoder, words, lengths + 1, width + 1, None)
        # here and below the channel is the feature: it is dropped in all words
        encoded = self.dropout(encoded.transpose(1, 2)).transpose(1, 2)
        memory = self.to_memory(torch.cat((memory[0], memory[1]), dim=1)).unsqueeze(0)
        sources = F.elu(self.to_decoder(encoded[:, 1:]))
        start = (torch.tanh(memory), memory)
        decoded, _ = _run(self.decoder, sources, lengths, width, start)
        return encoded, self.dropout(decoded.transpose(1, 2)).transpose(1, 2)


def _run(
    lstm: nn.LSTM, inputs: Tensor, lengths: Tensor, width: int, start: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """An LSTM over rows of different length: states padded to `width`, and the last ones."""
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    outputs, last = lstm(packed, start)
    return pad_packed_sequence(outputs, batch_first=True, total_length=width)[0], last


def _is_word(lengths: Tensor, width: int) -> Tensor:
    return torch.arange(width, device=lengths.device)[None] < lengths[:, None]


TEACHER_FORCING = 0.5  # fraction of training batches in which the gold pieces go in
MAX_VALUE_PIECES = 10  # generated of a value; longer gold values cannot be found
DROPOUT = 0.1
INITIALIZER_RANGE = 0.02
_PAIRS_AT_ONCE = 512  # slots of which the scores of the whole vocabulary are held when decoding
_LOWEST_PROBABILITY = 1e-30  # of copying a piece that the dialogue has not


class _Step(NamedTuple):
    """What one step of the decoder gives, for every row and slot."""

    hidden: Tensor  # (B, J, H)
    attention: Tensor  # (B, J, T), fp32
    context: Tensor  # (B, J, H)
    generate: Tensor  # (B, J, 1) logit of writing a piece, against copying one


class SlotGenerator(Head):
    """Gates (B, J) and value pieces (B, J, K) of the J slots.

    A GRU starts from the pooled [CLS] and the sum of the embeddings of the slot's name. Each step
    gives a probability over the vocabulary (through the encoder's word embeddings) and over the
    pieces of the dialogue (by attention), mixed by a gate of their own; the first step's context
    also gives the slot's gate. It learns from `gates` (B, J) and `values` (B, J, K), then [PAD].

    The official code sums [PAD] with shorter names of slots, and has no linear layers for encoders
    whose embeddings are narrower than their hidden states (small ELECTRA).
    """

    slot_ids: Tensor  # (J, pieces of the longest name)
    slot_mask: Tensor

    def __init__(self, encoder: nn.Module, slot_ids: list[list[int]], pad_id: int) -> None:
        super().__init__()
        any_encoder: Any = encoder
        # in a tuple: the weights are the encoder's, and learnt with it, not once more as the head's
        self._embeddings: tuple[nn.Embedding, ...] = (any_encoder.get_input_embeddings(),)
        size, width = any_encoder.config.hidden_size, self._embeddings[0].embedding_dim
        self.pad_id = pad_id
        longest = max(map(len, slot_ids))
        padded = [[*ids, *[pad_id] * (longest - len(ids))] for ids in slot_ids]
        mask = [[1.0] * len(ids) + [0.0] * (longest - len(ids)) for ids in slot_ids]
        self.register_buffer("slot_ids", torch.tensor(padded), persistent=False)
        self.register_buffer("slot_mask", torch.tensor(mask), persistent=False)
        self.pooler = nn.Linear(size, size)
        nn.init.normal_(self.pooler.weight, std=INITIALIZER_RANGE)
        nn.init.zeros_(self.pooler.bias)
        own = getattr(getattr(encoder, "pooler", None), "dense", None)
        if isinstance(own, nn.Linear):
            self.pooler.load_state_dict(own.state_dict())
        is_narrow = width != size
        self.widen = nn.Linear(width, size) if is_narrow else nn.Identity()
        self.narrow = nn.Linear(size, width) if is_narrow else nn.Identity()
        self.gru = nn.GRUCell(size, size)
        self.generate = nn.Linear(3 * size, 1)
        self.gate = nn.Linear(size, len(GATES))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, states: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`gate_logits` (B, J, gates); training: `log_probabilities` (B, J, K) of the gold pieces;
        else: `generated` (B, J, 10) ids, right where the gate says that the value is generated."""
        names = (self._embedded(self.slot_ids) * self.slot_mask[..., None]).sum(dim=1)
        inputs = names.expand(len(states), -1, -1)  # (B, J, H)
        hidden = torch.tanh(self.pooler(states[:, 0]))[:, None].expand_as(inputs)
        is_forced = self.training and bool(torch.rand(()) < TEACHER_FORCING)
        step = self._step(inputs, hidden, states, batch)
        outputs = {"gate_logits": self.gate(step.context)}
        if self.training:
            return outputs | {"log_probabilities": self._learn(step, is_forced, states, batch)}
        generated = outputs["gate_logits"].argmax(dim=2) == GENERATED
        return outputs | {"generated": self._decode(step, generated.nonzero(), states, batch)}

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy of the value pieces, the mean over those of the batch, plus that of the
        gates. Every slot learns a value; that of a gate is the gate's name."""
        values, gates = self.terms(outputs, batch)
        return values + gates

    def terms(
        self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """The two: a mean over pieces and one over gates."""
        mask = batch["values"] != self.pad_id
        values = -(outputs["log_probabilities"] * mask).sum() / mask.sum()
        gates = F.cross_entropy(
            outputs["gate_logits"].float().flatten(0, 1), batch["gates"].flatten()
        )
        return values, gates

    def counts(self, batch: Mapping[str, Tensor]) -> tuple[int, ...]:
        return int((batch["values"] != self.pad_id).sum()), batch["gates"].numel()

    def _learn(
        self, step: _Step, is_forced: bool, states: Tensor, batch: Mapping[str, Tensor]
    ) -> Tensor:
        """Log-probabilities of the gold pieces; the piece before is the gold one if `is_forced`,
        else the best."""
        log_probabilities: list[Tensor] = []
        before = None
        for ids in batch["values"].unbind(dim=2):
            if before is not None:
                step = self._step(self._embedded(before), step.hidden, states, batch)
            scores, before = self._vocabulary(step.hidden), ids
            log_probabilities.append(_log_probability(scores, step, batch["input_ids"], ids))
            if not is_forced:
                with torch.no_grad():
                    before = self._best(scores.detach(), step, batch["input_ids"])
        return torch.stack(log_probabilities, dim=2)

    def _decode(
        self, step: _Step, pairs: Tensor, states: Tensor, batch: Mapping[str, Tensor]
    ) -> Tensor:
        """Greedy. Only slots whose value is generated, of which `pairs` (n, 2) are rows and slots,
        get scores over the vocabulary, the costly part: a slot's values depend on no other slot."""
        shape = (*step.hidden.shape[:2], MAX_VALUE_PIECES)
        generated = batch["input_ids"].new_full(shape, self.pad_id)
        before = None
        for ids in generated.unbind(dim=2):
            if before is not None:
                step = self._step(self._embedded(before), step.hidden, states, batch)
            for part in torch.split(pairs, _PAIRS_AT_ONCE):
                rows, slots = part.unbind(dim=1)
                of_pairs = _Step(*(value[rows, slots][:, None] for value in step))
                scores = self._vocabulary(of_pairs.hidden)
                best = self._best(scores, of_pairs, batch["input_ids"][rows])
                ids[rows, slots] = best.squeeze(1)
            before = ids
        return generated

    def _step(
        self, inputs: Tensor, hidden: Tensor, states: Tensor, batch: Mapping[str, Tensor]
    ) -> _Step:
        inputs = self.dropout(inputs)
        with torch.autocast(states.device.type, enabled=False):
            size = hidden.shape[2]
            after: Tensor = self.gru(
                inputs.float().reshape(-1, size), hidden.float().reshape(-1, size)
            )
        hidden = after.view_as(inputs)
        scores = hidden.to(states.dtype) @ states.transpose(1, 2)  # (B, J, T)
        is_padding = batch["attention_mask"][:, None] == 0
        attention = scores.float().masked_fill(is_padding, -1e9).softmax(dim=2)
        context = attention.to(states.dtype) @ states
        mixed = torch.cat((inputs.to(hidden.dtype), hidden, context.to(hidden.dtype)), dim=2)
        return _Step(hidden, attention, context, self.generate(mixed).float())

    def _vocabulary(self, hidden: Tensor) -> Tensor:
        """Scores of all pieces, (B, J, V) in fp32."""
        return F.linear(self.narrow(hidden), self._embeddings[0].weight).float()

    def _embedded(self, ids: Tensor) -> Tensor:
        widened: Tensor = self.widen(F.embedding(ids, self._embeddings[0].weight))
        return widened

    def _best(self, scores: Tensor, step: _Step, input_ids: Tensor) -> Tensor:
        generate = step.generate.sigmoid()
        probabilities = generate * scores.softmax(dim=2)
        copied = ((1 - generate) * step.attention).to(probabilities.dtype)
        index = input_ids[:, None].expand_as(copied)
        return probabilities.scatter_add_(2, index, copied).argmax(dim=2)


def _log_probability(scores: Tensor, step: _Step, input_ids: Tensor, ids: Tensor) -> Tensor:
    """Of the given pieces (B, J): log(g p_vocabulary + (1 - g) p_copy), without that sum over the
    whole vocabulary, and in logarithms so that no probability is lost to 0."""
    written = scores.gather(2, ids[..., None]).squeeze(2) - scores.logsumexp(dim=2)
    is_piece = input_ids[:, None] == ids[..., None]  # (B, J, T)
    copied = (step.attention * is_piece).sum(dim=2).clamp_min(_LOWEST_PROBABILITY).log()
    generate = step.generate.squeeze(2)
    return torch.logaddexp(F.logsigmoid(generate) + written, F.logsigmoid(-generate) + copied)
