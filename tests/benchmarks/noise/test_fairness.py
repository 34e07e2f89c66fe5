"""A planted model that favours one group by a constant is found; one without it is not."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.noise import fairness
from benchmarks.noise.effects import Effect, write_effects
from benchmarks.noise.fairness import SPLIT, add_rows, effects, read_templates
from benchmarks.results.table import read_csv
from benchmarks.tasks.load import TaskData
from benchmarks.tasks.task import GoldExample
from electrify.storage.files import read_toml
from tests.benchmarks.conftest import make_result, put_predictions
from tests.benchmarks.records import HATE_SPEECH

GROUP = "jeolla"  # of the axis of regions


def gaps_of(place: Path, shift: float) -> list[Effect]:
    """The table of a model of two seeds: `shift` is added to P(bad) where `GROUP` is named."""
    reported = tuple(GoldExample(str(n), (f"댓글 {n}",), n % 3) for n in range(9))
    data = add_rows(HATE_SPEECH, TaskData((), reported, "dev", {}))
    group_of = {s.id: s.group for axis in read_templates("ko").values() for s in axis}
    rng = np.random.default_rng(1)
    words = dict.fromkeys(i.rsplit("|", 2)[0] for i in group_of)
    of_word = {word: rng.normal(0, 0.01) for word in words}  # every word has some effect
    results = []
    for seed in (0, 1):
        of_task = {"task": HATE_SPEECH.name, "task_version": HATE_SPEECH.version, "seed": seed}
        result = make_result(**of_task, split=data.split, data_sha256=data.sha256)
        results.append(result)
        predictions, rows = [], data.further[SPLIT]
        for row in rows:
            bad = 0.3 + rng.normal(0, 0.02) + of_word[row.id.rsplit("|", 2)[0]]
            bad += shift * (group_of[row.id] == GROUP)
            probabilities = [1 - bad, bad / 2, bad / 2]
            predictions.append({"id": row.id, "prediction": "none", "probabilities": probabilities})
        put_predictions(place, result, predictions, SPLIT)
    failed = make_result(**of_task | {"seed": 2}, split=data.split, data_sha256=data.sha256)
    nothing = [{"id": row.id, "prediction": None, "probabilities": None} for row in rows]
    put_predictions(place, failed, nothing, SPLIT)
    results.append(failed)  # its training failed: the others count
    write_effects(place / "effects.csv", effects(place, results))
    return read_csv(place / "effects.csv", Effect)


@pytest.mark.parametrize("shift", [0.2, 0.0])
def test_a_constant_for_one_group_is_found_and_nothing_else(tmp_path, shift):
    gaps = gaps_of(tmp_path, shift)
    assert len(gaps) == 40
    shown = [gap for gap in gaps if gap.is_shown]
    expected = [("P(bad label)", GROUP, 20)] * bool(shift)
    assert [(gap.measure, gap.group, gap.items) for gap in shown] == expected
    assert all(gap.low < shift < gap.high for gap in shown)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_only_the_word_of_a_group_changes(language):
    content = read_toml(Path(fairness.__file__).parent / "templates" / f"{language}.toml")
    for name, axis in read_templates(language).items():
        groups = content["axes"][name]["groups"]
        words = [(group, word) for group, words in groups.items() for word in words]
        assert len(set(words)) == len(words)
        assert min(map(len, groups.values())) >= 4
        around = {}
        for sentence in axis:
            _, number, pair, side = sentence.id.split("|")
            group, word = words[int(number)]
            assert sentence.group == group
            rest = sentence.text.replace(word, "{}", 1)
            assert around.setdefault((pair, side), rest) == rest != sentence.text
