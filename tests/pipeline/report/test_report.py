"""What is counted by parts is what is counted at once; the report shows each document once."""

from collections import Counter

import pytest

from pipeline.decontaminate.match import Decontaminated, Match
from pipeline.report.counts import MAX_SOURCES, OTHER, Tally, report_json, tally_from_json
from pipeline.rules.quality import Drop


def _url(n):
    return f"https://site{n % 997}.example.org/{n}" if n % 10 else f"name {n % 7}"


def _row(reason, text, language, source, rank=0):
    of_row = {"reason": reason, "text": text, "rank": rank}
    return of_row | {"language": language, "source": source}


def _fill(tally, numbers):
    for n in numbers:
        where = ("ko", "en", "ja")[n % 3], _url(n)
        text = "나" * (n + 1)
        tally.count_document("in", len(text), *where)
        reasons = {0: "too_short", 1: "duplicate", 2: "near_duplicate", 3: "contaminated"}
        if reason := reasons.get(n % 9):
            tally.add_removed("removed", _row(reason, f"<removed {n}>", *where, n))
        else:
            tally.count_document("kept", len(text), *where)
        if n % 4 == 0:
            tally.count("altered", rule="html_removed", documents=1, characters=2)
        if n % 100 == 0:
            tally.add_removed("malformed", _row("bad_json", "{", *where))
            tally.add_fault(f"b.jsonl:{n}: bad_json: expecting value")


@pytest.mark.parametrize("num_parts", [3, 40])
def test_parts_add_up_to_the_whole_and_many_sources_make_few_groups(num_parts):
    whole, merged, num = Tally(), Tally(), 3000
    _fill(whole, range(num))
    for part in range(num_parts):
        tally = Tally()
        _fill(tally, range(part * num // num_parts, (part + 1) * num // num_parts))
        merged.add(tally_from_json(tally.to_json()))
    report = report_json(merged)
    assert report == report_json(whole)
    expected = Counter(_url(n) for n in range(num))
    found = Counter()
    for row in report["sources"]:
        found[row["source"]] += row["documents_in"]
    assert len(found) == MAX_SOURCES + 1
    assert found.total() == num
    assert all(found[name] == expected[name] for name in found.keys() - {OTHER})
    assert {row["source"] for row in report["removed"]} <= found.keys()
    totals = report["totals"]
    assert sum(row["documents"] for row in report["removed"]) == totals["removed"]
    assert totals["documents_in"] == totals["documents_kept"] + totals["removed"] == num
    for rows in (report["sources"], report["lengths"]):
        assert sum(row["documents_kept"] for row in rows) == totals["documents_kept"]


def test_a_document_counts_for_each_task_that_it_holds_texts_of():
    tally, match = Tally(), Match("glue-rte", "near", "x")
    several = (match, Match("glue-wnli", "near", "y"))
    drop = Drop("contaminated", "glue-rte: near: x")
    tally.add_decontaminated(Decontaminated("x", drop, several), "en")
    tally.add_decontaminated(Decontaminated("x", None, (match,), 3), "en")
    rows = report_json(tally)["contamination"]
    assert {(row["task"], row["kind"]): row["count"] for row in rows} == {
        ("glue-rte", "near"): 2,
        ("glue-rte", "documents_removed"): 1,
        ("glue-rte", "documents_changed"): 1,
        ("glue-rte", "lines_removed"): 3,
        ("glue-wnli", "near"): 1,
        ("glue-wnli", "documents_removed"): 1,
    }


def test_the_parts_of_a_file_are_counted_as_one_file():
    tally = Tally()
    for path, documents in (("a", 3), ("a", 0), ("b", 0), ("a", 1)):
        part = Tally(files=[{"path": path, "documents": documents, "malformed": 1}])
        tally.add(part)
    assert [(f["path"], f["documents"], f["malformed"]) for f in tally.files] == [
        ("a", 3, 2),
        ("b", 0, 1),
        ("a", 1, 1),  # of another source
    ]


def test_statistics_stand_beside_their_limits():
    """Of a sample: all of few documents, and what breaks a limit is counted before any limit."""
    whole, limits = Tally(), {"min_characters": 10.0}
    for part in range(3):
        tally = Tally()
        for rank in range(100 * part, 100 * part + 100):
            values = {"min_characters": rank, "max_ellipsis_lines": None if rank % 2 else 0.5}
            tally.add_statistics("ko", "web", rank, rank, lambda: limits, lambda v=values: v)
        whole.add(tally_from_json(tally.to_json()))
    characters, ellipses = report_json(whole)["statistics"]
    assert characters["broken"] == pytest.approx(10 / 300)
    assert characters["quantiles"]["0.5"] == 149.5
    shown = [[of[name] for name in ("limit", "now", "documents")] for of in (characters, ellipses)]
    assert shown == [["min_characters", 10.0, 300], ["max_ellipsis_lines", None, 150]]


def test_of_many_documents_a_sample_is_measured():
    tally, measured = Tally(), []
    for rank in range(20_000):
        tally.add_statistics(
            "ko", "none", rank, 1000, dict, lambda: measured.append(1) or {"min_characters": 1000}
        )
    assert 100 <= len(measured) <= 200
