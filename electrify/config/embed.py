"""Options of contrastive training: an encoder of tokens to one of sentences."""

from typing import Annotated, Literal

from pydantic import Field

from electrify.config.fields import Count, Fraction, Section

_Positive = Annotated[float, Field(gt=0)]


class EmbedConfig(Section):
    """A sentence encoder, by contrastive training ([sentence embeddings](embeddings.md))."""

    pairs: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Sources of pairs: a table with the columns `anchor`, `positive` and, if any, `negative`; the
    folder of a run, for the titles and paragraphs of its corpus; or a task of reading or of NLI,
    such as `klue-mrc`, whose training split is taken."""
    max_pairs: Count | None = None
    """Number of pairs of each source at most, drawn by the seed. Left out: all."""
    num_epochs: Count = 3
    """Passes over the pairs."""
    batch_size: Annotated[int, Field(ge=2)] = 128
    """Pairs a step: the positives of all others in the batch are the negatives of one."""
    learning_rate: _Positive | None = None
    """Highest learning rate. Left out: 3e-4 for a width of at most 256, 5e-5 below 1,024, 2e-5."""
    warmup_fraction: Fraction = 0.1
    """Fraction of the steps in which the rate rises."""
    temperature: _Positive = 0.05
    """Divides the cosines before the softmax."""
    pooling: Literal["mean", "cls"] = "mean"
    """What of a text's hidden states is its embedding: their mean, or the state of [CLS]."""
    max_sequence_length: Count = 256
    """Longest text in tokens, here and in the exported folder, at most the positions of the
    model."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision of matrix products. `auto`: bf16 where it is faster."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """`auto`: a GPU where there is one."""
