import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from electrify.config.pretrain import MixtureConfig, SequenceConfig
from tests.vocab.shard_files import SPECIAL, write_shards
from vocab.shards.files import TokenShards
from vocab.shards.reader import (
    PERIOD,
    Schedule,
    SequenceReader,
    limited_fractions,
    sampling_fractions,
    whole_quotas,
)

FIRST_ID = {"ko": 10, "en": 110, "fr": 210}  # a language's tokens start here
PACKINGS = ("full", "sentence")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    random = np.random.default_rng(0)
    documents = {}
    for split in ("train", "valid"):
        for language, count in (("ko", 200), ("en", 40), ("fr", 5)):
            documents[split, language] = [
                [
                    (random.integers(0, 100, random.integers(1, 20)) + FIRST_ID[language]).tolist()
                    for _ in range(random.integers(1, 8))
                ]
                + [[FIRST_ID[language], 3]]
                for _ in range(count)
            ]
    path = tmp_path_factory.mktemp("shards")
    write_shards(path, documents, 400, "0" * 64, SPECIAL, shard_tokens=500)
    return path


def reader(folder, packing="full", temperature=1.0, length=32, seed=0, split="train"):
    shards = TokenShards(folder)
    mixture = MixtureConfig(temperature=temperature)
    options = SequenceConfig(sequence_length=length, packing=packing, mixture=mixture)
    return SequenceReader(shards, split, options, seed)


def batch(found, first, count, *ranks):
    return found.sequences(found.indices(first, count, *ranks))


def languages_in(row):
    text = row[row >= 10]
    return {name for name, first in FIRST_ID.items() if ((text - first) // 100 == 0).any()}


def languages_of(found: SequenceReader, count: int) -> list[str]:
    return [found.languages[number] for number in found.language_numbers(found.indices(0, count))]


@pytest.mark.parametrize("packing", PACKINGS)
def test_no_sequence_mixes_languages_and_all_are_there(folder, packing):
    found = reader(folder, packing)
    ids, _ = batch(found, 0, found.num_sequences)
    assert {frozenset(languages_in(row)) for row in ids} == {frozenset([name]) for name in FIRST_ID}
    by_position = [{language} for language in languages_of(found, found.num_sequences)]
    assert [languages_in(row) for row in ids] == by_position
    assert found.is_full == (packing == "full") == (not (ids == 0).any())


@pytest.mark.parametrize("packing", PACKINGS)
def test_reading_resumes_from_a_number_alone_and_ranks_get_what_one_would(folder, packing):
    whole = batch(reader(folder, packing, 0.3), 0, 400)
    again = reader(folder, packing, 0.3)
    for first, count in [(0, 7), (390, 10), (131, 64)]:  # also with another batch size
        for num_ranks in (1, 3):
            for rank in range(num_ranks):
                part = batch(again, first, count, rank, num_ranks)
                for mine, all_of in zip(part, whole, strict=True):
                    assert (mine == all_of[first : first + count][rank::num_ranks]).all()
    assert (batch(reader(folder, packing, 0.3, seed=1), 0, 400)[0] != whole[0]).any()


def test_a_language_shorter_than_a_sequence_is_left_out_and_named(folder, caplog):
    found = reader(folder, "full", 0.3, length=510)
    assert "fr is left out of the train split" in caplog.text
    assert set(languages_of(found, 200)) == {"en", "ko"}
    assert found.passes(1000)["fr"] == 0


def test_too_little_text_names_numbers_and_what_to_change(folder, tmp_path):
    documents = {("train", "ko"): [[9] * 60 + [3]], ("valid", "ko"): []}
    write_shards(tmp_path, documents, 400, "0", SPECIAL)
    with pytest.raises(ValueError, match=r"61 tokens of the train split do not .* = 64 \(62 tok"):
        reader(tmp_path, length=64)
    with pytest.raises(ValueError, match=r"larger encode\.valid_fraction"):
        reader(tmp_path, length=64, split="valid")
    assert reader(tmp_path, length=63).num_sequences == 2  # 60 tokens, and the last of them again
    ids, _ = batch(reader(tmp_path, "sentence", length=64), 0, 1)
    assert (ids[0, :62] == [2, *[9] * 60, 3]).all()


def order(schedule, first, count):
    return schedule.indices(np.arange(first, first + count))


def _tempered(sizes, temperature, seed):
    named = {str(number): size for number, size in enumerate(sizes)}
    return Schedule(sizes, [*sampling_fractions(named, temperature).values()], seed)


@pytest.mark.parametrize("sizes", [[7], [300, 0, 41], [1, 1]])
def test_at_temperature_one_every_epoch_is_a_permutation_of_everything(sizes):
    schedule, total = Schedule(sizes, None, 3), sum(sizes)
    epochs = [order(schedule, epoch * total, total).tolist() for epoch in range(3)]
    assert all(sorted(epoch) == list(range(total)) for epoch in epochs)
    if total > 9:
        assert epochs[0] != epochs[1]
        assert epochs[0] != order(Schedule(sizes, None, 4), 0, total).tolist()
    assert schedule.passes(2 * total) == [2.0 if size else 0.0 for size in sizes]


def test_languages_are_drawn_by_the_power_of_their_size():
    sizes, temperature = [100_000, 10_000, 0, 300], 0.3
    schedule = _tempered(sizes, temperature, 0)
    powers = np.array([size**temperature if size else 0 for size in sizes])
    expected = powers / powers.sum()
    language, _ = schedule.locate(order(schedule, 0, 2 * PERIOD))
    found = np.bincount(language, minlength=4) / (2 * PERIOD)
    assert found == pytest.approx(expected, abs=1 / PERIOD)
    assert schedule.fractions == pytest.approx(expected, abs=1 / PERIOD)
    assert schedule.passes(1000)[3] == pytest.approx(1000 * expected[3] / 300, rel=1e-3)
    # and so is every stretch of the order, to within two, also across the end of a period
    for first in (0, 777, PERIOD - 50):
        some = np.bincount(language[first : first + 200], minlength=4)
        assert (np.abs(some - 200 * expected) <= 2).all()


def test_each_language_is_read_whole_before_it_is_read_again():
    sizes = [5000, 40, 9]
    schedule = _tempered(sizes, 0.3, 1)
    language, local = schedule.locate(order(schedule, 0, 3000))
    for number, size in enumerate(sizes):
        drawn = local[language == number]
        assert len(drawn) > 5 * size or number == 0
        epochs = [drawn[i : i + size] for i in range(0, len(drawn), size)]
        assert all(len(set(epoch.tolist())) == len(epoch) for epoch in epochs)
        assert number == 0 or (epochs[0] != epochs[1]).any()


def test_fractions_become_whole_numbers_that_sum():
    assert whole_quotas(np.array([0.5, 0.25, 0.25]), 10).tolist() in ([5, 3, 2], [5, 2, 3])
    assert whole_quotas(np.array([1.0, 0.0]), 7).tolist() == [7, 0]
    assert whole_quotas(np.array([1.0, 1e-9, 1e-9]), 8).tolist() == [6, 1, 1]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 10**15), min_size=1), st.floats(0, 1)
)
def test_fractions_follow_the_law_and_sum_to_one(sizes, temperature):
    fractions = sampling_fractions(sizes, temperature)
    assert sum(fractions.values()) == pytest.approx(1)
    for a in sizes:
        for b in sizes:
            ratio = (sizes[a] / sizes[b]) ** temperature
            assert fractions[a] / fractions[b] == pytest.approx(ratio)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.floats(0.0, 2.0)), min_size=1, max_size=6),
)
def test_limits_cut_what_is_over_and_keep_the_proportions_of_the_rest(rows):
    """Water that is poured in small portions in proportion to the fractions: as brute force."""
    total = sum(weight for weight, _ in rows)
    assume(total > 0)
    fractions = {str(n): weight / total for n, (weight, _) in enumerate(rows)}
    most = {str(n): limit for n, (_, limit) in enumerate(rows)}
    if sum(limit for n, limit in most.items() if fractions[n]) < 1 - 1e-6:
        with pytest.raises(ValueError, match="max_tokens and max_epochs leave"):
            limited_fractions(fractions, most)
        return
    low, high = 0.0, 1e9  # the level up to which each is filled
    for _ in range(200):
        level = (low + high) / 2
        filled = sum(min(of * level, most[n]) for n, of in fractions.items())
        low, high = (level, high) if filled < 1 else (low, level)
    expected = {n: min(of * level, most[n]) for n, of in fractions.items()}
    assert limited_fractions(fractions, most) == pytest.approx(expected, abs=1e-6)


def test_weights_multiply_and_nought_leaves_a_language_out():
    sizes = {"a": 100, "b": 50, "c": 7}
    assert sampling_fractions(sizes, 1.0, {"b": 4.0, "c": 0.0}) == {"a": 1 / 3, "b": 2 / 3, "c": 0}
    with pytest.raises(ValueError, match="leaves no text"):
        sampling_fractions({"a": 3}, 0.5, {"a": 0.0})
