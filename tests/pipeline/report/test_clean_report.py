"""The report shows everything that was counted, each document once."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pipeline.decontaminate.match import Decontaminated, Match
from pipeline.report.counts import Tally, cluster_ranges, funnel, report_json
from pipeline.report.page import write_report
from pipeline.rules.changes import (
    CONTEXT_CHARACTERS,
    WINDOW_CHARACTERS,
    excerpt,
    mask_excerpt,
)
from pipeline.rules.filters import Drop
from pipeline.rules.normalize import clean_text


def _tally():
    tally = Tally()
    for n in range(400):
        language, source = ("ko", "en")[n % 2], f"source-{n % 3}"
        tally.add_document_in("나" * (n + 1), language, source)
        reason = {0: "too_short", 1: "duplicate", 2: "near_duplicate", 3: "contaminated"}.get(n % 9)
        if reason:
            tally.add_removed(reason, f"{n:09d}", f"<removed {n}>", language, source)
        else:
            tally.add_document_kept("나" * (n + 1), language, source, f"{n:09d}")
        if n % 4 == 0:
            tally.add_altered("html_removed", 2, language, source)
            tally.add_change("html_removed", f"{n:09d}", f"<b>{n}  →  {n}", language, source)
    for size in (2, 2, 3, 9, 1000):
        tally.add_cluster("near", size)
    tally.add_cluster("exact", 5)
    tally.add_contamination("klue-ynat", "sentence", "ko", 3)
    tally.add_benchmark("klue-ynat", 6375, 204)
    drop = Drop("contaminated", "glue-rte: near: x")
    match = Match("glue-rte", "near", "x")
    tally.add_decontaminated(
        Decontaminated("x", drop, (match, Match("glue-wnli", "near", "y"))), "en"
    )
    tally.add_decontaminated(Decontaminated("x", None, (match,), 3), "en")
    tally.add_malformed("bad_json", "b.jsonl:7", "{", "ko", "source-1")
    tally.add_example("b.jsonl:7: bad_json: expecting value")
    tally.files.append({"path": "a.jsonl", "documents": 400, "malformed": 0})
    tally.files.append({"path": "b.jsonl", "documents": 0, "malformed": 1})
    tally.files.append({"path": "empty.jsonl", "documents": 0, "malformed": 0})
    return tally


def test_every_document_of_the_report_is_counted_once():
    report = report_json(_tally())
    totals = report["totals"]
    assert totals["documents_in"] == totals["documents_kept"] + totals["removed"] == 400
    for rows in (report["sources"], report["languages"], report["lengths"]):
        assert sum(row["documents_in"] for row in rows) == totals["documents_in"]
        assert sum(row["documents_kept"] for row in rows) == totals["documents_kept"]
    assert sum(row["documents"] for row in report["removed"]) == totals["removed"]
    assert report["altered"] == {"html_removed": 100}
    assert sum(row["pieces"] for row in report["altered_by_source"]) == 200
    assert json.loads(json.dumps(report)) == report


def test_the_funnel_ends_with_what_was_kept_and_follows_the_passes():
    report = report_json(_tally())
    steps = funnel(report)
    assert steps[0] == ("rows read", 401)
    assert steps[-1][1] == report["totals"]["documents_kept"]
    assert [label for label, _ in steps[1:]] == [
        "after bad_json",
        "after too_short",
        "after duplicate",
        "after contaminated",
        "after near_duplicate",
    ]


def test_benchmark_texts_are_counted_by_task():
    report = report_json(_tally())
    assert report["benchmarks"] == [{"task": "klue-ynat", "texts": 6375, "too_short": 204}]
    counts = {(row["task"], row["kind"]): row["count"] for row in report["contamination"]}
    assert counts == {
        ("klue-ynat", "sentence"): 3,
        ("glue-rte", "near"): 2,
        ("glue-rte", "documents_removed"): 1,
        ("glue-rte", "documents_changed"): 1,
        ("glue-rte", "lines_removed"): 3,
        ("glue-wnli", "near"): 1,
        ("glue-wnli", "documents_removed"): 1,
    }


def test_cluster_ranges_hold_every_cluster():
    rows = report_json(_tally())["clusters"]
    labels, series = cluster_ranges(rows)
    assert labels[:3] == ["2-3", "4-7", "8-15"]
    assert labels[-1] == "512-1,023"
    assert series["near"][:3] == [3, 0, 1]
    assert series["exact"][1] == 1
    assert sum(map(sum, series.values())) == sum(row["clusters"] for row in rows) == 6


def test_the_page_has_everything_escaped_and_is_always_equal(tmp_path):
    pages = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_report(_tally(), tmp_path / name)
        pages.append((tmp_path / name / "report.html").read_text(encoding="utf-8"))
    page = pages[0]
    assert page == pages[1]
    for title in (
        "Languages",
        "Lengths",
        "Sets of duplicates",
        "Benchmark texts",
        "klue-ynat",
        "bad_json",
        "too_short",
        "near_duplicate",
        "html_removed",
        "b.jsonl:7: bad_json",
        "empty.jsonl",
        "512-1,023",
    ):
        assert title in page
    assert "<removed" not in page
    assert page.count("&lt;removed") == 80  # 20 of each of the four reasons
    assert page.count("  →  ") == 20
    assert page.count("<svg") >= 5


def test_a_page_of_nothing(tmp_path):
    write_report(Tally(), tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["totals"]["documents_in"] == 0


@given(st.text("ab \n"), st.text("ab \n"), st.text("ab \n", max_size=200))
def test_an_excerpt_shows_the_first_difference(one, other, start):
    before, after = start + one, start + other
    left, right = excerpt(before, after).split("  →  ", 1)
    if before != after:
        assert left != right
    assert len(left) <= WINDOW_CHARACTERS + 2
    assert len(right) <= WINDOW_CHARACTERS + 2


def test_an_excerpt_by_hand():
    assert excerpt("a\u200bb", "ab") == "a\\u200bb  →  ab"
    long = "가" * 500
    left, _ = excerpt(f"{long}<b>{long}", long + long).split("  →  ")
    assert (
        left
        == f"…{'가' * CONTEXT_CHARACTERS}<b>{'가' * (WINDOW_CHARACTERS - CONTEXT_CHARACTERS - 3)}…"
    )


def test_a_mask_is_shown_though_another_stands_before_it():
    before = f"mail a@b.kr {'말 ' * 100}call 010-1234-5678 now"
    after = before.replace("a@b.kr", "<email>").replace("010-1234-5678", "<phone>")
    assert "mail a@*** 말" in mask_excerpt(before, after, "<email>")
    left, right = mask_excerpt(before, after, "<phone>").split("  →  ")
    assert "call 01*** now" in left
    assert "call <phone> now" in right


def test_an_excerpt_shows_no_personal_data_though_several_follow_one_another():
    before = "write to kim.gu@hanmail.net, lee@naver.com or 010-2345-6789 today"
    after = "write to <email>, <email> or <phone> today"
    for mask, start in (("<email>", "to ki***, <email>"), ("<phone>", "or 01*** today")):
        shown = mask_excerpt(before, after, mask)
        assert start in shown
        assert not any(hidden in shown for hidden in ("m.gu@", "naver", "0-2345"))


def test_rule_changes_are_those_of_each_rule_in_turn():
    rules = (
        ("upper", str.upper),
        ("strip", str.strip),
        ("same", lambda text: text),
    )
    changes = []
    clean_text(" a ", rules, lambda *change: changes.append(change))
    assert changes == [("upper", " a ", " A "), ("strip", " A ", "A")]


HOSTILE = "<script>alert('가')</script><img src=x onerror=\"alert(1)\"> &lt; \x00\u202e"


def test_markup_in_documents_stays_text(tmp_path):
    """Of texts, of names of sources and files, and of what a fault says."""
    tally = Tally()
    for _ in range(3):
        tally.add_document_in("나" * 20, "ko", HOSTILE)
        tally.add_removed("too_short", "1", HOSTILE, "ko", HOSTILE)
        tally.add_altered("html_removed", 2, "ko", HOSTILE)
        tally.add_change("html_removed", "1", HOSTILE, "ko", HOSTILE)
        tally.add_malformed("malformed_json", HOSTILE, HOSTILE, "ko", HOSTILE)
        tally.add_example(HOSTILE)
        tally.add_contamination(HOSTILE, "sentence", "ko", 3)
        tally.files.append({"path": HOSTILE, "documents": 1, "malformed": 1})
    write_report(tally, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(&#39;가&#39;)" in page
