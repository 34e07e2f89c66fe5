"""docs/config.md is what the models give, with a meaning for every key."""

from pathlib import Path

from tools.reference.__main__ import reference


def test_the_page_is_what_the_models_give():
    command = "python -m tools.reference > docs/config.md"
    assert Path("docs/config.md").read_text(encoding="utf-8") == reference(), f"run: {command}"
