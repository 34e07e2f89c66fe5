"""Options of naming hidden tokens of held-out text (`electrify predict-masked`)."""

from typing import Annotated

from pydantic import Field

from electrify.config.section import Count, Section


class MaskedConfig(Section):
    """How much text is read, and how many tokens are weighed for each hidden one.

    The discriminator reads 2 x num_sequences x positions_per_sequence x num_candidates sequences:
    by default a minute's work of two CPU cores for configs/ko-tiny.toml. Four times the sequences
    make intervals half as wide.
    """

    num_sequences: Count = 32  # of the held-out split, in the run's own order
    positions_per_sequence: Count = 4  # of those that training would choose there
    # the generator's likeliest tokens, which are weighed by the discriminator
    num_candidates: Annotated[int, Field(ge=5)] = 32
    batch_size: Count = 256  # sequences a forward pass: a matter of memory alone
