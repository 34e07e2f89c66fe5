"""The dependency parser of KLUE-DP: an encoder over words, a decoder, two biaffine scores.

Park et al. 2021 (KLUE), after Fernandez-Gonzalez and Gomez-Rodriguez 2019 (left-to-right pointers)
and Dozat and Manning 2017 (biaffine scores); sizes as KLUE-baseline has them
(klue_baseline/models/dependency_parsing.py).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.tasks.heads.linear import Head
from benchmarks.tasks.kinds.parsing import NO_WORD

LSTM_SIZE, ARC_SIZE, LABEL_SIZE, POS_SIZE = 768, 512, 256, 256
DROPOUT = 0.33
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

    def __init__(self, state_size: int, num_labels: int, num_tags: int | None) -> None:
        """`num_tags` is that of POS tags; None: they are not read."""
        super().__init__()
        self.pos_embedding = nn.Embedding(num_tags + 1, POS_SIZE) if num_tags else None
        word_size = 2 * state_size + (POS_SIZE if num_tags else 0)
        self.encoder = nn.LSTM(word_size, LSTM_SIZE, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(LSTM_SIZE, LSTM_SIZE, batch_first=True)
        self.dropout = nn.Dropout1d(DROPOUT)
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
        if self.pos_embedding is not None:
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
