"""Every row of removed.toml: what was removed is refused with the row's sentence."""

from typing import Any, get_origin

import pytest
import typer

from electrify.cli import app, main
from electrify.config.fields import section_of
from electrify.config.load import parse_config
from electrify.config.removed import KEYS, OPTIONS, VALUES, VERBS
from electrify.config.run import RunConfig

_VERBS: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def _refusal(key: str, value: object) -> str:
    """What a config with this key alone is refused with."""
    config: dict[str, Any] = {}
    table, model = config, RunConfig
    *sections, last = key.split(".")
    for section in sections:
        annotation = model.model_fields[section].annotation
        model = section_of(annotation)
        inner: dict[str, Any] = {}
        table[section] = [inner] if get_origin(annotation) is tuple else inner
        table = inner
    table[last] = [value] if key == "evaluate.suites" else value
    with pytest.raises(ValueError, match="problem") as refused:
        parse_config(config)
    return str(refused.value)


REMOVED = [(key, True, sentence) for key, sentence in KEYS.items()]
REMOVED += [(key, value, said) for key, of in VALUES.items() for value, said in of.items()]


@pytest.mark.parametrize(("key", "value", "sentence"), REMOVED)
def test_a_removed_key_or_value_is_refused_with_what_to_do_instead(key, value, sentence):
    assert f"is gone: {sentence}" in _refusal(key, value)


@pytest.mark.parametrize("verb", VERBS)
def test_a_removed_verb_is_refused_with_what_to_do_instead(verb: str, capsys):
    assert main([verb, "x"]) == 2
    assert f"is gone: {VERBS[verb]}" in capsys.readouterr().err


@pytest.mark.parametrize("row", OPTIONS)
def test_a_removed_option_is_refused_with_what_to_do_instead(row: str, capsys):
    verb, option = row.split()
    assert option not in [name for each in _VERBS[verb].params for name in each.opts]
    assert main([verb, option, "x"]) == 2
    assert f"is gone: {OPTIONS[row]}" in capsys.readouterr().err


def test_each_sentence_stands_in_the_middle_of_another():
    sentences = [*(said for *_, said in REMOVED), *VERBS.values(), *OPTIONS.values()]
    assert not [said for said in sentences if not said or said != said.strip(" .")]
