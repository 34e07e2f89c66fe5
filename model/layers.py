"""The ELECTRA transformer: embeddings, post-LayerNorm encoder, generator and discriminator heads.

Every piece computes what `transformers`' Electra classes compute (erf GELU, absolute positions,
LayerNorm after the residual), so that weights carry over one to one. Shapes: B sequences, L
positions, N masked positions, E embedding size, H hidden size, V vocabulary size.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.plan import EncoderShape


class Embeddings(nn.Module):
    """Word + position + token-type embeddings, LayerNorm, dropout: (B, L) ids to (B, L, E).

    Where embeddings are shared, it is this whole module, as in the original (variable scope
    `electra/embeddings`, model/modeling.py:187-218), not only the word table.
    """

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.word = nn.Embedding(shape.vocab_size, shape.embedding_size)
        self.position = nn.Embedding(shape.max_position_embeddings, shape.embedding_size)
        self.token_type = nn.Embedding(2, shape.embedding_size)
        self.norm = nn.LayerNorm(shape.embedding_size, eps=shape.layer_norm_eps)
        self.dropout = nn.Dropout(shape.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        position_ids: Tensor | None = None,
        base: "Embeddings | None" = None,
    ) -> Tensor:
        """`position_ids` (B, L) in place of 0 ... L - 1.

        The tables of `base` are added to these, which are then differences from it, and get no
        gradient (gradient-disentangled sharing, DeBERTaV3, section 3.2).
        """
        ids = input_ids, position_ids, token_type_ids
        summed = _summed_rows([table.weight for table in self.tables()], *ids)
        if base is not None:
            tables = [table.weight.detach() for table in base.tables()]
            summed = summed + _summed_rows(tables, *ids)
        embedded: Tensor = self.dropout(self.norm(summed))
        return embedded

    def tables(self) -> tuple[nn.Embedding, nn.Embedding, nn.Embedding]:
        return self.word, self.position, self.token_type


def _summed_rows(
    tables: Sequence[Tensor], words: Tensor, positions: Tensor | None, token_types: Tensor
) -> Tensor:
    """One row of each table for each token: (V, E), (P, E), (2, E) to (B, L, E)."""
    word, position, token_type = tables
    # the first L in order are no look-up, and their gradient is a sum in place of a scatter
    first = position[: words.shape[1]]
    places = first if positions is None else F.embedding(positions, position)
    return F.embedding(words, word) + places + F.embedding(token_types, token_type)


class Layer(nn.Module):
    """Self-attention and feed-forward, each followed by residual and LayerNorm."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        hidden, eps = shape.hidden_size, shape.layer_norm_eps
        self.num_heads = shape.num_attention_heads
        self.attention_dropout = shape.attention_probs_dropout_prob
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.attention_output = nn.Linear(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=eps)
        self.intermediate = nn.Linear(hidden, shape.intermediate_size)
        self.output = nn.Linear(shape.intermediate_size, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=eps)
        self.dropout = nn.Dropout(shape.hidden_dropout_prob)

    def forward(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        """(B, L, H) to (B, L, H); `attention_mask` is bool, True where attended, and broadcasts to
        (B, heads, L, L)."""
        inputs, attention_output, intermediate, output = self._products(hidden)
        projected = torch.unflatten(F.linear(hidden, *inputs), -1, (3, self.num_heads, -1))
        query, key, value = projected.permute(2, 0, 3, 1, 4)  # each (B, heads, L, head size)
        dropout = self.attention_dropout if self.training else 0.0
        attended = attend(query, key, value, attention_mask, dropout)
        attended = F.linear(attended.transpose(1, 2).flatten(2), *attention_output)
        hidden = self.attention_norm(hidden + self.dropout(attended))
        widened = F.linear(F.gelu(F.linear(hidden, *intermediate)), *output)
        normed: Tensor = self.output_norm(hidden + self.dropout(widened))
        return normed

    def _products(self, hidden: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of each matrix product: query, key and value as one, then the others."""
        products = [
            (self.query, self.key, self.value),
            (self.attention_output,),
            (self.intermediate,),
            (self.output,),
        ]
        groups = [[of.weight for of in product] for product in products]
        groups += [[of.bias for of in product] for product in products]
        kind = hidden.device.type
        if torch.is_autocast_enabled(kind):
            joined = _joined_in(torch.get_autocast_dtype(kind), groups)
        else:
            joined = [torch.cat(group) if len(group) > 1 else group[0] for group in groups]
        return list(zip(joined[:4], joined[4:], strict=True))


def _joined_in(dtype: torch.dtype, groups: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Each group one behind the other along its first dimension, in another type.

    Autocast would cast every tensor by itself, and its gradient back: 24 kernels for a layer, which
    take longer to start than to run. Here it is one copy, of which the tensors are views.
    """
    cast = torch.cat([tensor.flatten() for group in groups for tensor in group]).to(dtype)
    parts = torch.split(cast, [sum(tensor.numel() for tensor in group) for group in groups])
    return [part.view(-1, *group[0].shape[1:]) for part, group in zip(parts, groups, strict=True)]


def attend(
    query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, dropout: float
) -> Tensor:
    """softmax(QK^T / sqrt(d)) V: each (B, heads, L, d) to the same shape.

    Torch's fused attention, but for bf16 on the CPU: there its backward pass takes two to three
    times as long as the formula written out (measured at L = 128), so it is written out.
    """
    if query.device.type != "cpu" or query.dtype != torch.bfloat16:
        return F.scaled_dot_product_attention(query, key, value, attention_mask, dropout)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, float("-inf"))
    probabilities = F.dropout(scores.float().softmax(dim=-1), dropout)
    return probabilities.to(value.dtype) @ value


class Encoder(nn.Module):
    """Embeddings projected to the network's own width where they differ, then the layers.

    The embeddings are passed in, since two networks share them.
    """

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        differs = shape.embedding_size != shape.hidden_size
        self.project = nn.Linear(shape.embedding_size, shape.hidden_size) if differs else None
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))

    def forward(
        self,
        embedded: Tensor,
        attention_mask: Tensor | None = None,
        layers: list[Tensor] | None = None,
    ) -> Tensor:
        """(B, L, E) to the last layer's hidden states (B, L, H).

        `attention_mask` is (B, L), nonzero where there is a token, or bool, True where attended,
        and broadcasts to (B, heads, L, L). `layers` gets what enters the first layer, and the
        hidden states of each.
        """
        hidden = embedded
        if self.project is not None:
            # autocast makes the product bf16; what the layers add to stays in fp32 all the same
            hidden = self.project(embedded).to(embedded.dtype)
        attention_mask = broadcast_mask(attention_mask)
        if layers is not None:
            layers.append(hidden)
        for layer in self.layers:
            hidden = layer(hidden, attention_mask)
            if layers is not None:
                layers.append(hidden)
        return hidden


def broadcast_mask(mask: Tensor | None) -> Tensor | None:
    """A mask of tokens (B, L) as one of keys (B, 1, 1, L) bool; others, and None, as they are."""
    return mask.bool()[:, None, None, :] if mask is not None and mask.dim() == 2 else mask


class TwoTowers(nn.Module):
    """What stands before each token and what stands behind it, never the token itself.

    The left tower reads from left to right, the right one from right to left; a token's state is
    the left tower's at the token before it beside the right one's at the token after it (Electric,
    Clark et al. 2020b, section 2.3). The ends get zeros, as does a side whose neighbour may not be
    attended to: it is of another document.
    """

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.left, self.right = Encoder(shape), Encoder(shape)

    def forward(self, embedded: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(B, L, E) to (B, L, 2 H); `attention_mask` as for `Encoder`."""
        length = embedded.shape[1]
        square = 1, 1, length, length
        before = torch.ones(square, dtype=torch.bool, device=embedded.device).tril()
        # a token always attends to itself: a row without any key would be nan
        itself = torch.eye(length, dtype=torch.bool, device=embedded.device)
        attention_mask = broadcast_mask(attention_mask)
        allowed = torch.ones_like(before) if attention_mask is None else attention_mask
        left = self.left(embedded, (before & allowed) | itself)
        right = self.right(embedded, (before.mT & allowed) | itself)
        left, right = left[:, :-1], right[:, 1:]
        if attention_mask is not None:
            shown = attention_mask[:, 0].expand(-1, length, length)
            left = left * shown.diagonal(-1, 1, 2)[..., None]
            right = right * shown.diagonal(1, 1, 2)[..., None]
        return torch.cat([F.pad(left, (0, 0, 1, 0)), F.pad(right, (0, 0, 0, 1))], dim=-1)


class GeneratorHead(nn.Module):
    """dense(E) + GELU, LayerNorm, then the network's word table transposed plus a bias.

    Takes gathered positions only: (B, N, H) to (B, N, V) (run_pretraining.py:254-268). Training
    does not call it: `head_loss` goes from `transform` to the loss without all the logits.
    """

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.num_towers * shape.hidden_size, shape.embedding_size)
        self.norm = nn.LayerNorm(shape.embedding_size, eps=shape.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(shape.vocab_size))

    def forward(self, hidden: Tensor, word_table: Tensor) -> Tensor:
        return F.linear(self.transform(hidden), word_table, self.bias)

    def transform(self, hidden: Tensor) -> Tensor:
        """What the word table is multiplied by: (..., H) to (..., E)."""
        transformed: Tensor = self.norm(F.gelu(self.dense(hidden)))
        return transformed


class DiscriminatorHead(nn.Module):
    """dense(H) + GELU, then one logit a token: (B, L, H) to (B, L); high means replaced."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.hidden_size, shape.hidden_size)
        self.prediction = nn.Linear(shape.hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.prediction(F.gelu(self.dense(hidden))).squeeze(-1)
        return logits


# of the tables of `initialise_mimetic`: large beside a step of Adam's, so that few steps do not
# turn them; positions stand out against words
_TABLE_STD, _POSITION_FACTOR = 0.12, 2.0
_LONGEST_WAVE = 1000.0  # positions


def initialise_mimetic(module: nn.Module) -> None:
    """Weights that attend to neighbours from the first step on, where `initialise` has a network
    that only long training makes look at positions.

    Keys equal queries, so a token attends to what is like it (Trockman and Kolter 2023); positions
    are sinusoids, so like it are its neighbours. Matrices are normal with std 1/sqrt(inputs), and
    the token types, a constant in most text, begin at zero. After 2 M tokens a network of 2 x 128
    has an MLM loss of 5.65 in place of 6.26.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            _draw(part.weight, part.in_features**-0.5)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    for part in module.modules():
        if isinstance(part, Embeddings):
            _draw(part.word.weight, _TABLE_STD)
            nn.init.zeros_(part.token_type.weight)
            with torch.no_grad():
                waves = sinusoids(*part.position.weight.shape)
                part.position.weight.copy_(waves * _TABLE_STD * _POSITION_FACTOR)
        if isinstance(part, Layer):
            with torch.no_grad():
                part.key.weight.copy_(part.query.weight)
        if isinstance(part, DiscriminatorHead):
            nn.init.xavier_uniform_(part.prediction.weight)


def _draw(weight: Tensor, std: float) -> None:
    """Normal, drawn again beyond two standard deviations, as the original."""
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


def sinusoids(num_positions: int, size: int) -> Tensor:
    """Sine and cosine of each position at falling frequencies, of mean square 1: (positions, size)
    (Vaswani et al. 2017, section 3.5)."""
    frequencies = _LONGEST_WAVE ** -(torch.arange(0, size, 2) / size)
    angles = torch.arange(num_positions)[:, None] * frequencies
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :size]
    return waves * math.sqrt(2)


def initialise(module: nn.Module, std: float) -> None:
    """Truncated normal weights, zero biases, identity LayerNorms, as the original.

    The discriminator's last layer is Glorot-uniform there (run_pretraining.py:186-193: a plain
    `tf.layers.dense`), so here too.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            _draw(part.weight, std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
    for part in module.modules():
        if isinstance(part, DiscriminatorHead):
            nn.init.xavier_uniform_(part.prediction.weight)
