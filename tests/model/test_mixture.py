"""Fractions of a run against the sequences that its steps really read."""

from collections import Counter

import pytest

from electrify.config.pretrain import MixtureConfig
from model.data import StepData, open_shards
from model.plan import mixture_table, phase_readers
from tests.model.conftest import make_config, with_pretrain
from tests.model.test_data import write_two_languages

STEPS = {"num_steps": 40, "batch_size": 16, "warmup_steps": 1}
PHASES = [
    {"steps_fraction": 0.5, "sequence_length": 16, "mixture": {"temperature": 0.7}},
    {"steps_fraction": 0.3, "mixture": {"temperature": 0.5}},
]


def _read(config, folder):
    """Tokens of each language in all steps."""
    data, tokens = StepData(config, open_shards(folder / "shards"), 0, 1), Counter()
    for step in range(config.pretrain.num_steps):
        for batch in data.micro_batches(step):
            for number in batch.languages.tolist():
                tokens[data.last.languages[number]] += batch.input_ids.shape[1]
    return tokens


@pytest.fixture
def folder(tmp_path):
    write_two_languages(tmp_path)
    return tmp_path


def test_the_table_is_what_the_steps_read(folder):
    shards = open_shards(folder / "shards")
    names = phase_readers(make_config(folder, **STEPS), shards)[0].reader.languages
    small = names[-1]
    mixture = {"temperature": 0.3, "weight": {small: 3.0}}
    config = make_config(folder, **STEPS, curriculum=PHASES, mixture=mixture)
    tokens = _read(config, folder)
    readers = phase_readers(config, shards)
    for name in names:
        planned = sum(one.tokens()[name] for one in readers)
        assert tokens[name] == pytest.approx(planned, abs=3 * 3 * 64)
    assert [one.phase.mixture.temperature for one in readers] == [0.7, 0.5, 0.3]
    assert all(one.phase.mixture.weight == {small: 3.0} for one in readers)
    lines = [*mixture_table(readers)]
    assert "temperature 0.7" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == [*names]


def test_what_the_shards_lack_is_named(folder):
    config = make_config(folder, **STEPS)
    # as where a source finds out its languages
    mixed = with_pretrain(config, mixture=MixtureConfig(weight={"xx": 2.0}))
    with pytest.raises(ValueError, match=r"mixture\.weight: no source has 'xx'"):
        make_config(folder, **STEPS, mixture={"weight": {"xx": 2.0}})
    with pytest.raises(ValueError, match=r"mixture\.weight: the shards have no 'xx'"):
        phase_readers(mixed, open_shards(folder / "shards"))
