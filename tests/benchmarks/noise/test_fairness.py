"""A planted model that favours one group by a constant is found; one without it is not."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.noise import fairness
from benchmarks.noise.effects import Effect, write_effects
from benchmarks.noise.fairness import TEMPLATES, add_rows, effects, read_templates
from benchmarks.results.table import read_csv
from benchmarks.tasks.load import load_data
from electrify.storage.files import read_toml
from tests.benchmarks.conftest import make_result, put_predictions
from tests.benchmarks.records import HATE_SPEECH, write_hate_speech

GROUP = "jeolla"  # of the axis of regions


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """Comments in the format of BEEP!; every second one names women."""
    folder = tmp_path_factory.mktemp("data")
    who = (("그 사람", "none"), ("그 여자", "gender"))
    for split, count in (("train", 600), ("dev", 90)):
        named = ((n, *who[n % 2]) for n in range(count))
        rows = ((f"{name} 이야기 {split} {n}", bias) for n, name, bias in named)
        write_hate_speech(folder, split, rows)
    return folder


def gaps_of(place: Path, folder: Path, shift: float, alarm: float) -> list[Effect]:
    """The table of a model of two seeds: `shift` is added to P(bad) where `GROUP` is named, and a
    comment without fault that names women is called offensive with the chance `alarm`."""
    data = add_rows(HATE_SPEECH, load_data(HATE_SPEECH, folder))
    sentences = [sentence for axis in read_templates("ko").axes.values() for sentence in axis]
    group_of = {tuple(sentence.id.split("|")[:2]): sentence.group for sentence in sentences}
    rng = np.random.default_rng(1)
    of_word = {key: rng.normal(0, 0.01) for key in group_of}  # every word has some effect
    results = []
    for seed in (0, 1):
        of_task = {"task": HATE_SPEECH.name, "task_version": HATE_SPEECH.version, "seed": seed}
        result = make_result(**of_task, split=data.split, data_sha256=data.sha256)
        results.append(result)
        for split, examples in data.predicted.items():
            predictions = []
            for row in examples:
                gold = None if row.gold is None else HATE_SPEECH.labels[row.gold]
                bad = 0.3 + rng.normal(0, 0.02)
                said = gold
                if split == TEMPLATES:
                    key = tuple(row.id.split("|")[:2])
                    bad += of_word[key] + shift * (group_of[key] == GROUP)
                elif rng.random() < (alarm if gold == "none" and "여자" in row.texts[0] else 0.05):
                    said = "offensive" if gold == "none" else "none"
                predictions.append(
                    {"id": row.id, "gold": gold, "prediction": said}
                    | {"probabilities": [1 - bad, bad / 2, bad / 2]}
                )
            put_predictions(place, result, predictions, "" if split == data.split else split)
    write_effects(place / "effects.csv", effects(place, results, {HATE_SPEECH.name: data}))
    return read_csv(place / "effects.csv", Effect)


def found(gaps: list[Effect]) -> set[tuple[str, str]]:
    return {(gap.measure, gap.group) for gap in gaps if gap.is_shown}


def test_a_constant_for_one_group_is_found_and_nothing_else(tmp_path, data_folder):
    gaps = gaps_of(tmp_path, data_folder, shift=0.2, alarm=0.05)
    assert found(gaps) == {("P(bad label)", GROUP)}
    (gap,) = (gap for gap in gaps if gap.is_shown)
    assert gap.low < 0.2 < gap.high
    assert gap.items == read_templates("ko").num_pairs


def test_false_alarms_on_rows_that_name_a_group_are_found(tmp_path, data_folder):
    gaps = gaps_of(tmp_path, data_folder, shift=0.0, alarm=0.6)
    assert ("false alarms", "women") in found(gaps)
    assert {group for measure, group in found(gaps) if measure != "false alarms"} == set()
    women = next(gap for gap in gaps if (gap.measure, gap.group) == ("false alarms", "women"))
    assert women.value == pytest.approx(0.6, abs=0.1)
    assert women.other == pytest.approx(0.05, abs=0.05)


def test_a_model_without_a_defect_shows_nothing(tmp_path, data_folder):
    gaps = gaps_of(tmp_path, data_folder, shift=0.0, alarm=0.05)
    assert len(gaps) > 40
    assert found(gaps) == set()


@pytest.mark.parametrize("language", ["ko", "en"])
def test_only_the_word_of_a_group_changes(language):
    content = read_toml(Path(fairness.__file__).parent / "templates" / f"{language}.toml")
    for name, axis in read_templates(language).axes.items():
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
