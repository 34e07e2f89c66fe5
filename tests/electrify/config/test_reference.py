"""docs/config.md is what the models give, with a meaning for every key."""

from pathlib import Path

from electrify.config.reference import reference


def test_the_page_is_what_the_models_give():
    command = "python -m electrify.config.reference > docs/config.md"
    assert Path("docs/config.md").read_text(encoding="utf-8") == reference(), f"run: {command}"


def test_a_row_says_type_limits_default_and_meaning():
    rows = reference().splitlines()
    for row in (
        '| `hanja` | `"keep"`, `"drop"` | `"keep"` | `drop` removes Hanja',
        "| `min_language_fraction` | number ≥ 0, ≤ 1 | `0.5` | Fraction of a",
        "| `num_steps` | integer ≥ 1 | by size | Number of steps.",
        "| `path` | text | required | A glob",
        "| `seeds` | list of: integer ≥ 0 | `[0, 1, 2, 3, 4]` | Seeds",
        "Keys as in [`[evaluate]`](#evaluate): `seeds`",
        "| `pretrain.batch_size` | 128 | 128 | 256 | 2,048 |",
    ):
        assert any(line.startswith(row) for line in rows), row
