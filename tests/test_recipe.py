"""The recipe for Korean is what the configs say, and names reports and pages that are there."""

import re
from pathlib import Path

from electrify.config.load import load_config

PAGE = Path("docs/recipe-ko.md").read_text(encoding="utf-8")


def value_of(setting: str) -> str:
    """The second cell of the row of a setting."""
    (found,) = re.findall(rf"^\| `{re.escape(setting)}` \| (.*?) \|", PAGE, re.MULTILINE)
    return found


def test_the_values_are_those_of_the_small_config():
    config = load_config("configs/ko-small.toml")
    assert value_of("vocab.pretokenizer").startswith(f"`{config.vocab.pretokenizer}`")
    assert f"`{config.vocab.morpheme_cuts}`" in value_of("vocab.pretokenizer")
    assert value_of("vocab.size") == f"{config.vocab.size:,}"
    assert value_of("vocab.limit_alphabet") == f"{config.vocab.limit_alphabet:,}"
    assert value_of("weight_sharing") == f"`{config.pretrain.weight_sharing}`"
    assert value_of("objective") == f"`{config.pretrain.objective}`"
    assert f"`vocab.temperature = {config.vocab.temperature}`" in PAGE
    assert f"similarity {config.clean.near_dedup.similarity:g}".replace("0.", ".") in PAGE
    assert f"| {config.pretrain.main_weight:g} |" in PAGE
    assert f"{100 * config.pretrain.mask_fraction:g} % of the tokens, `fixed`" in PAGE
    assert config.pretrain.masking == "fixed"
    assert config.pretrain.mask_unit == "token"
    assert config.clean.hanja == "keep"
    assert config.pretrain.optimizer == "paper"
    assert config.evaluate.recipe == "auto"


def test_the_schedule_is_that_of_the_sizes():
    small, base = (load_config(f"configs/ko-{size}.toml") for size in ("small", "base"))
    rates = [f"{c.pretrain.learning_rate:.0e}".replace("e-0", "e-") for c in (small, base)]
    assert f"{rates[0]} (small), {rates[1]} (base)" in PAGE
    assert f"{small.pretrain.warmup_steps:,} steps of warmup" in PAGE
    batches = [f"{c.pretrain.batch_size} x {c.encode.sequence_length}" for c in (small, base)]
    steps = [c.pretrain.num_steps for c in (small, base)]
    assert f"{batches[0]}, {steps[0] // 10**6} M (small)" in PAGE
    assert f"{batches[1]}, {steps[1] // 1000} k (base)" in PAGE
    fractions = [c.pretrain.generator_hidden_fraction for c in (small, base)]
    assert [round(1 / f) for f in fractions] == [4, 3]
    assert "size small 1/4, base 1/3" in PAGE
