"""Shares and budgets of a run against the sequences that its steps really read."""

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
    """Sequences and tokens of each language in all steps."""
    shards = open_shards(folder / "shards")
    data = StepData(config, shards, 0, 1)
    sequences, tokens = Counter(), Counter()
    for step in range(config.pretrain.num_steps):
        for batch in data.micro_batches(step):
            length = batch.input_ids.shape[1]
            for number in batch.languages.tolist():
                sequences[data.last.languages[number]] += 1
                tokens[data.last.languages[number]] += length
    return shards, sequences, tokens


@pytest.fixture
def folder(tmp_path):
    write_two_languages(tmp_path)
    return tmp_path


def test_the_table_and_the_budgets_are_what_the_steps_read(folder):
    names = phase_readers(make_config(folder, **STEPS), open_shards(folder / "shards"))[
        0
    ].reader.languages
    small = names[-1]
    mixture = {"temperature": 0.3, "weight": {small: 3.0}}
    options = STEPS | {"curriculum": PHASES}
    free = make_config(folder, **options, mixture=mixture)
    shards, _, tokens = _read(free, folder)
    readers = phase_readers(free, shards)
    for name in names:
        planned = sum(one.tokens()[name] for one in readers)
        assert tokens[name] == pytest.approx(planned, abs=3 * 3 * 64)
    assert [one.phase.mixture.temperature for one in readers] == [0.7, 0.5, 0.3]
    assert all(one.phase.mixture.weight == {small: 3.0} for one in readers)

    budget = int(tokens[small] * 0.6)
    limited = make_config(folder, **options, mixture=mixture | {"max_tokens": {small: budget}})
    _, _, of_budget = _read(limited, folder)
    assert of_budget[small] == pytest.approx(budget, abs=3 * 3 * 64)
    assert sum(of_budget.values()) == sum(tokens.values())
    lines = [*mixture_table(phase_readers(limited, shards))]
    assert "temperature 0.7" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == [*names]

    passes = sum(one.passes()[small] for one in readers)
    limited = make_config(folder, **options, mixture=mixture | {"max_epochs": {small: passes / 2}})
    of_epochs = phase_readers(limited, shards)
    assert sum(one.passes()[small] for one in of_epochs) == pytest.approx(passes / 2, rel=0.01)


def test_what_the_shards_lack_or_budgets_do_not_allow_is_named(folder):
    shards = open_shards(folder / "shards")
    config = make_config(folder, **STEPS)

    def mixed(**options):  # as where a source finds out its languages
        return with_pretrain(config, mixture=MixtureConfig(**options))

    with pytest.raises(ValueError, match=r"mixture\.weight: no source has 'xx'"):
        make_config(folder, **STEPS, mixture={"weight": {"xx": 2.0}})
    with pytest.raises(ValueError, match=r"mixture\.weight: the shards have no 'xx'"):
        phase_readers(mixed(weight={"xx": 2.0}), shards)
    budgets = dict.fromkeys(phase_readers(config, shards)[0].reader.languages, 1)
    with pytest.raises(ValueError, match="take fewer steps"):
        phase_readers(mixed(max_tokens=budgets), shards)
    phase = {"steps_fraction": 0.5, "mixture": {"max_tokens": budgets}}
    with pytest.raises(ValueError, match="of the whole run"):
        make_config(folder, **STEPS, curriculum=[phase])
