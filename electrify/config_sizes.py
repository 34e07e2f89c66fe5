"""The paper's values for each size of model."""

from typing import Any, Literal

Size = Literal["small", "small++", "base", "large"]

# The paper's own values (Table 6; google-research/electra configure_pretraining.py). small++ is
# the released checkpoint, whose generator is as wide as the discriminator. `large` masks a quarter
# of the tokens. Base and large stand in the original code as comments only.
SIZE_PRESETS: dict[str, dict[str, Any]] = {
    "small": {
        "num_hidden_layers": 12,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_attention_heads": 4,
        "embedding_size": 128,
        "generator_hidden_fraction": 0.25,
        "mask_fraction": 0.15,
        "batch_size": 128,
        "learning_rate": 5e-4,
        "num_steps": 1_000_000,
    },
    "small++": {
        "num_hidden_layers": 12,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_attention_heads": 4,
        "embedding_size": 128,
        "generator_hidden_fraction": 1.0,
        "mask_fraction": 0.15,
        "batch_size": 128,
        "learning_rate": 5e-4,
        "num_steps": 4_000_000,
    },
    "base": {
        "num_hidden_layers": 12,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "embedding_size": 768,
        "generator_hidden_fraction": 1 / 3,
        "mask_fraction": 0.15,
        "batch_size": 256,
        "learning_rate": 2e-4,
        "num_steps": 766_000,
    },
    "large": {
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "embedding_size": 1024,
        "generator_hidden_fraction": 0.25,
        "mask_fraction": 0.25,
        "batch_size": 2048,
        "learning_rate": 2e-4,
        "num_steps": 400_000,
    },
}
SIZE_SEQUENCE_LENGTH = {"small": 128, "small++": 512, "base": 512, "large": 512}
