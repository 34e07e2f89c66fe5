"""Goals are judged by the figures, and the peer's output is read as what it means."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.throughput import peer
from benchmarks.throughput import run as run_module
from benchmarks.throughput.corpus import Corpus, Prepared
from benchmarks.throughput.figures import Comparison, Figures, Step
from benchmarks.throughput.goals import OURS, judge
from benchmarks.throughput.graph import WHOLE, Parts, write_config
from benchmarks.throughput.measure import Cost
from benchmarks.throughput.recall import BandRecall, Outcome, read_peer_outcome
from benchmarks.throughput.table import build_page
from electrify.config.clean import NearDedupConfig
from electrify.config.load import load_config


def _figures() -> Figures:
    corpus = {
        "languages": ["ko"],
        "profiles": "ko/a: none",
        "documents": 800,
        "megabytes": 16.0,
        "planted_exact": 1,
        "planted_near": 2,
        "seed": 0,
    }
    return Figures(
        corpus,
        near=[
            Step(OURS, 800, 16.0, cpu_seconds=2.0),
            *(Step(f"peer {s}", 800, 16.0, cpu_seconds=s) for s in (90.0, 18.0)),
        ],
        whole=[Step("whole graph", 800, 16.0, 4.0, wall_seconds=w) for w in (4.0, 2.0)],
        scale=[Step("small", 100, 2.0, 2.0, 1.0, 300.0), Step("all", 800, 16.0, 9.0, 5.0, 701.0)],
        start_cpu_seconds=1.0,
        recall=[
            BandRecall(OURS, "words", 0.8, 100, 98, 100),
            BandRecall(OURS, "block", 0.8, 100, 100, 100),
            BandRecall(OURS, "words", 0.7, 100, 94, 99),
            BandRecall("peer", "words", 0.8, 100, 10, 10),
        ],
    )


def test_goals_follow_from_the_figures() -> None:
    by_name = {goal.name.split(",")[0]: goal for goal in judge(_figures())}
    assert by_name["near-duplicate removal"].value == pytest.approx(9.0)
    assert by_name["recall at Jaccard 0.8 and above"].value == pytest.approx(0.99)
    assert by_name["recall at Jaccard 0.8 and above"].met is True
    assert by_name["recall at Jaccard 0.7 and 0.75"].met is False
    assert by_name["recall of exact copies"].met is None
    assert by_name["whole graph without Kiwi"].value == pytest.approx(8.0)
    # (2 - 1) / 100 and (9 - 1) / 800 seconds a document
    assert by_name["CPU seconds per document"].value == pytest.approx(1.0)
    assert (by_name["peak memory on the largest corpus"].value) == 701.0
    assert by_name["peak memory on the largest corpus"].met is False


def test_a_dearer_size_breaks_the_goal() -> None:
    figures = _figures()
    figures.scale[1] = replace(figures.scale[1], cpu_seconds=1 + 800 * 0.013)
    (goal,) = (goal for goal in judge(figures) if goal.name.startswith("CPU seconds"))
    assert (goal.value, goal.met) == (pytest.approx(1.3), False)


def test_the_kept_document_of_a_cluster_stands_for_the_removed(tmp_path: Path) -> None:
    def write(name: str, rows: list[tuple[str, int]]) -> None:
        (tmp_path / name).mkdir(parents=True)
        lines = (
            json.dumps(
                {"id": i, "text": "", "metadata": {"minhash_cluster_id": c}}
                if c is not None
                else {"id": i, "text": "", "metadata": {}}
            )
            for i, c in rows
        )
        (tmp_path / name / "00000.jsonl").write_text("\n".join(lines), encoding="utf-8")

    write("ko/kept", [("a", 4), ("b", -1), ("c", 0), ("d", None)])
    write("ko/removed", [("a1", 4), ("c1", 0), ("a2", 4)])
    write("en/kept", [("e", 4)])  # clusters of another part have numbers of their own
    write("en/removed", [("e1", 4)])
    outcome = read_peer_outcome([tmp_path / "ko", tmp_path / "en"])
    assert outcome == Outcome({"a1": "a", "a2": "a", "c1": "c", "e1": "e"}, frozenset("abcde"))


def test_a_peer_that_fails_is_said_and_the_rest_goes_on(tmp_path: Path, monkeypatch) -> None:
    def refuse(work: Path, languages: set[str]) -> Path:
        raise ValueError(f"cannot be installed below {work}")

    done = SimpleNamespace(cost=Cost(1.0, 1.0, 1.0, 1.0), folder=tmp_path)
    monkeypatch.setattr(run_module, "install_peer", refuse)
    monkeypatch.setattr(run_module, "run_graph", lambda *_: done)
    monkeypatch.setattr(run_module, "read_outcome", lambda _: Outcome({}, frozenset()))
    figures = _figures()
    figures.near = []
    prepared = Prepared(tmp_path, (), 5, 1000, ())
    settings = run_module.Settings(
        tmp_path, tmp_path, ("ko",), 0, 0, 0, True, False, (), num_workers=1
    )
    run_module._measure_near(prepared, settings, figures)
    assert [step.name for step in figures.near] == [OURS]
    page = build_page(figures).markdown()
    assert "could not be installed or failed: not measured" in page
    assert str(tmp_path) not in page


def test_the_peer_has_our_bands_and_words_by_language_beside_its_example(
    tmp_path: Path, monkeypatch
) -> None:
    corpora = tuple(
        Corpus(of, name, tmp_path) for of, name in (("ko", "a"), ("en", "b"), ("ko", "c"))
    )
    prepared = Prepared(tmp_path / "input", corpora, 3, 1000, ())
    for index in range(3):
        (tmp_path / "input" / f"{index:02d}").mkdir(parents=True)
        (tmp_path / "input" / f"{index:02d}" / "00000.jsonl").touch()
    tasks = []

    def run(command: list[str], _: Path) -> Cost:
        path = Path(command[-1])
        tasks.append(json.loads(path.read_text(encoding="utf-8")))
        path.with_name("seconds.json").write_text("{}", encoding="utf-8")
        return Cost(1.0, 1.0, 1.0, 1.0)

    monkeypatch.setattr(peer, "run_measured", run)
    for settings in peer.PEER_SETTINGS:
        peer.run_peer(Path("python"), prepared, settings, tmp_path / "peer", 1)
    bands = [(task["num_bands"], task["rows_per_band"]) for task in tasks]
    ours = NearDedupConfig()
    assert bands == [(14, 8), *[(ours.num_bands, ours.rows_per_band)] * 2]
    files = [{part["words"]: part["files"] for part in task["parts"]} for task in tasks]
    every = [f"{index:02d}/00000.jsonl" for index in range(3)]
    assert files == [
        {"en": every},
        {"ko": [every[0], every[2]], "en": [every[1]]},
        {"plain": every},
    ]


def test_the_page_says_what_each_comparison_means() -> None:
    figures = _figures()
    figures.peers = [Comparison("peer 90.0", "equal | bands", {"signatures": 1.25})]
    assert "| peer 90.0 | equal \\| bands | signatures 1.2 |" in build_page(figures).markdown()


def test_what_is_off_is_off_in_the_config(tmp_path: Path) -> None:
    prepared = Prepared(tmp_path, (Corpus("ko", "cpp-docs", tmp_path),), 1, 1, ())
    off = load_config(write_config(prepared, Parts(lines=True), tmp_path)).clean
    assert (off.exact_dedup, off.line_dedup.enabled, off.near_dedup.enabled) == (False, True, False)
    assert not any((off.remove_html, off.mask_pii, off.repair_mojibake, off.max_repeats))
    assert (off.min_characters, off.min_language_fraction) == (0, 0.0)
    assert off.sources[0].profile == "none"
    whole = load_config(write_config(prepared, WHOLE, tmp_path)).clean
    assert whole.exact_dedup
    assert whole.near_dedup.enabled
    assert whole.remove_html
    assert whole.sources[0].profile == "documentation"
