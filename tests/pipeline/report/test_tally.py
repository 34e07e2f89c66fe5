"""What is counted by parts is what is counted at once, whatever the parts and their order."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.counts import Tally, length_bucket, tally_from_json
from pipeline.report.samples import NUM_SAMPLES, SAMPLE_CHARACTERS, Sample, Samples

PLACES = st.tuples(st.sampled_from(["ko", "en", "de"]), st.sampled_from(["a", "b", "c", "d"]))
ROWS = st.lists(st.tuples(st.integers(0, 300), PLACES), max_size=150, unique_by=lambda r: r[0])


def _samples(rows):
    samples = Samples()
    for number, (language, source) in rows:
        samples.add(Sample(f"{number:09d}", f"text {number}", language, source))
    return samples


@given(ROWS, st.integers(1, 6), st.randoms(use_true_random=False))
def test_samples_do_not_depend_on_how_rows_are_divided(rows, num_parts, rng):
    whole = _samples(rows).listed()
    shuffled = list(rows)
    rng.shuffle(shuffled)
    merged = Tally()
    for part in range(num_parts):
        merged.add(Tally(samples={"kept": _samples(shuffled[part::num_parts])}))
    assert merged.samples["kept"].listed() == whole
    assert len(whole) == min(NUM_SAMPLES, len(rows))


@given(ROWS)
def test_samples_take_sources_in_turn(rows):
    in_all = Counter(place for _, place in rows)
    chosen = Counter((s.language, s.source) for s in _samples(rows).listed())
    # nobody has two more than another that still has some left
    for n in chosen.values():
        for other, m in in_all.items():
            assert n <= chosen[other] + 1 or chosen[other] == m


@given(ROWS, st.integers(0, 300), PLACES)
def test_wanted_samples_are_those_that_are_kept(rows, number, place):
    samples = _samples([row for row in rows if row[0] != number])
    label = f"{number:09d}"
    wanted = samples.wants(label, *place)
    samples.add(Sample(label, "x", *place))
    assert wanted == any(sample.label == label for sample in samples.listed())


def _fill(tally, numbers):
    for n in numbers:
        language, source = ("ko", "en", "ja")[n % 3], f"s{n % 4}"
        tally.add_document_in("가" * (n + 1), language, source)
        if n % 5 == 0:
            tally.add_removed("too_short", f"{n:09d}", "가" * (n + 1), language, source)
        else:
            tally.add_document_kept("가" * n, language, source, f"{n:09d}")
        if n % 2 == 0:
            tally.add_altered("html_removed", n % 7 + 1, language, source)
            tally.add_change("html_removed", f"{n:09d}", f"<b>{n}  →  {n}", language, source)
        if n % 11 == 0:
            tally.add_malformed("bad_json", f"f:{n}", "{", language, source)
            tally.add_example(f"f:{n}: bad_json")
            tally.add_cluster("exact", n + 2)
            tally.add_contamination("klue-ynat", "sentence", language)


def test_parts_add_up_to_the_whole():
    whole, merged = Tally(), Tally()
    _fill(whole, range(300))
    for first in range(0, 300, 50):
        part = Tally()
        _fill(part, range(first, first + 50))
        part.files.append({"path": f"f{first}", "documents": 50, "malformed": 0})
        merged.add(tally_from_json(part.to_json()))
    assert [file["path"] for file in merged.files] == [f"f{first}" for first in range(0, 300, 50)]
    merged.files.clear()
    assert whole.to_json() == merged.to_json()
    assert merged.total("documents_in") == 300
    assert merged.total("documents_kept") + merged.total("removed") == 300
    assert merged.by("altered", 1) == {"html_removed": 150}
    assert merged.by("altered_pieces", 1) == {
        "html_removed": sum(n % 7 + 1 for n in range(0, 300, 2))
    }


def test_a_long_sample_is_cut():
    tally = Tally()
    tally.add_removed("too_long", "1", "가" * 1000, "ko", "s")
    (sample,) = tally.samples["too_long"].listed()
    assert sample.text == "가" * SAMPLE_CHARACTERS + "…"


def test_length_buckets_are_powers_of_two():
    for length in (1, 2, 3, 4, 7, 8, 1023, 1024, 100_000):
        power = 2 ** int(length_bucket("가" * length))
        assert power <= length < 2 * power
    assert length_bucket("") == "00"
