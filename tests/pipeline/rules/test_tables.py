"""What people edit: patterns mean the same in every Python, tables have no key that is not read."""

import re
from pathlib import Path

from electrify.config.clean import QualityLimits
from pipeline.rules.data import read_table
from pipeline.rules.quality import RULES

POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{+[0-9,]+\}+)\+")


def test_no_group_is_possessive():
    """Python before 3.11.5 does not step back in `(?:...)*+`: `(?>(?:...)*)` is right in all."""
    for path in [*Path("pipeline").rglob("*.py"), *Path("pipeline").rglob("*.toml")]:
        assert not POSSESSIVE_GROUP.search(path.read_text(encoding="utf-8")), path


def test_a_limit_of_the_config_has_a_rule_and_a_language_no_unknown_key():
    """One that nothing reads would be accepted, and drop no text."""
    limits = set(QualityLimits.model_fields)
    assert {rule.limit for rule in RULES} == limits
    words = {"function_words", "function_characters"}
    tables = read_table("quality")
    del tables["rules"]
    for name, row in tables.items():
        assert row.keys() <= limits | words, name
