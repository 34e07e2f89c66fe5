"""Other limits make the same bytes as from the raw files, which nobody reads again."""

import random
import shutil
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from pipeline import clean as clean_module
from pipeline.clean import calibrate, clean
from pipeline.passes import annotate
from pipeline.passes.calibrate import propose
from pipeline.rules.quality import RULES
from pipeline.sources import files as sources
from tests.pipeline.builders import (
    clean_afresh,
    config_of,
    contents,
    documents,
    removed,
    sentence,
    write_texts,
)

IN_PROCESS = ["--direct_running_mode=in_memory"]
CHANGES = {
    "none": {},
    "stricter": {"min_characters": 60, "language": {"ko": {"quality": {"min_words": 95}}}},
    "other": {
        "min_language_fraction": 0.75,
        "quality": {"max_duplicate_lines": 0.9, "min_words": 0},
    },
    "unmasked": {"mask_pii": False},
    "language": {"min_language_fraction": 0.9},
    "any language": {"min_language_fraction": 0.0},
}
_NOTICE = "이 글의 저작권은 누리집에 있으며 옮겨 싣지 못한다."
_ENGLISH = "This sentence is of another language than its source, and so it says nothing here."


def _prose(seed):
    """Ninety different words in eighteen sentences."""
    rng = random.Random(seed)
    words = [
        "".join(chr(rng.randrange(0xAC00, 0xD7A3)) for _ in range(2)) + "는" for _ in range(90)
    ]
    return " ".join(" ".join(words[i : i + 5]) + "다." for i in range(0, 90, 5))


def _texts(name):
    """Copies, near copies, repeated lines, markup, personal data, lists and foreign lines."""
    body = [_prose(i) for i in range(8)] + [_prose(f"{name} {i}") for i in range(8)]
    texts = (
        [f"{_NOTICE}\n{text}" for text in body] + body[:3] + [f"<b>{body[4]}</b> 끝 a@naver.com"]
    )
    texts += [f"{_prose(f'list {i}')}\n" + f"- {sentence(i)}\n" * 40 for i in range(4)]
    texts += [f"{_ENGLISH}\n{_ENGLISH} {i}\n{_prose(i)[:200]}" for i in range(4)]
    return [*texts, "짧다", "", "12345 67890 12345", "kim&#64;daum.net <b>010-1234-5678</b>"]


@pytest.fixture(scope="module", autouse=True)
def batches_of_one_file():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "FILE_BATCH_BYTES", 1)
        yield


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("annotate") / "raw"
    for name in "ab":
        write_texts(folder / f"{name}.jsonl", _texts(name))
    return folder


def _config(folder, raw, **options):
    options = {"line_dedup": {"max_documents": 5}} | options
    return config_of(folder, [raw / "*.jsonl"], {"profile": "web"}, **options)


@pytest.fixture
def run(raw):
    """Each at the same place, by which files of a stopped run are found."""
    shutil.rmtree(raw.parent / "mine", ignore_errors=True)
    return partial(_config, raw.parent / "mine", raw)


@pytest.fixture(scope="module")
def afresh(raw):
    """The folder of a run from the raw files, made once."""
    return cache(lambda change: clean_afresh(_config(raw.parent / change, raw, **CHANGES[change])))


@pytest.fixture(scope="module")
def finished(raw):
    """A run without changes, put aside."""
    clean_afresh(_config(raw.parent / "mine", raw))
    return (raw.parent / "mine").rename(raw.parent / "finished")


@pytest.fixture
def first(run, finished):
    """The stage of the finished run, in its place."""
    return Path(shutil.copytree(finished, finished.with_name("mine"))) / "out" / "clean"


def test_changed_limits_make_the_bytes_of_runs_from_the_raw_files(run, afresh, first, monkeypatch):
    wanted = {change: contents(afresh(change)) for change in ("stricter", "other")}
    wanted["none"] = contents(first)
    assert len({*map(str, wanted.values())}) == 3
    monkeypatch.setattr(annotate, "annotate_files", None)  # nothing is read again
    for change, of_change in wanted.items():
        clean(run(**CHANGES[change]), IN_PROCESS, overwrite=True)
        assert contents(first) == of_change


@pytest.mark.parametrize("change", ["unmasked", "language"])
def test_what_changes_a_text_has_the_raw_files_read_again(run, afresh, first, change, monkeypatch):
    wanted = contents(afresh(change))
    calls, annotate_files = [], annotate.annotate_files
    monkeypatch.setattr(
        annotate, "annotate_files", lambda *given: calls.append(1) or annotate_files(*given)
    )
    clean(run(**CHANGES[change]), IN_PROCESS, overwrite=True)
    assert len(calls) == 2
    assert contents(first) == wanted


def test_rows_that_are_refused_stop_whatever_was_read_before(raw, tmp_path, monkeypatch):
    """And other files are not read again once they are allowed."""
    run = partial(_config, tmp_path, shutil.copytree(raw, tmp_path / "raw"))
    with (tmp_path / "raw" / "b.jsonl").open("a", encoding="utf-8") as file:
        file.write("broken\n")
    batches = []
    annotate_files = annotate.annotate_files

    def annotated(files, *others):
        batches.append(files.index)
        annotate_files(files, *others)

    monkeypatch.setattr(annotate, "annotate_files", annotated)
    for num_read in ([0, 1], [1]):
        batches.clear()
        with pytest.raises(ValueError, match=r"b\.jsonl:\d+: malformed_json"):
            clean(run(strict=True), IN_PROCESS, overwrite=True)
        assert batches == num_read
        clean(run(), IN_PROCESS, overwrite=True)
    assert batches == [1]


def test_a_look_that_was_stopped_is_no_part_of_the_next(run, afresh, first, monkeypatch):
    wanted = contents(afresh("stricter"))

    def stop(*_):
        raise OSError("stopped here")

    with monkeypatch.context() as patched:
        patched.setattr(clean_module, "write_output", stop)
        with pytest.raises(Exception, match="stopped here"):
            clean(run(min_characters=30), IN_PROCESS, overwrite=True)
    clean(run(**CHANGES["stricter"]), IN_PROCESS, overwrite=True)
    assert contents(first) == wanted
    assert not [*first.with_name(".work").glob("*/changed-*")]
    shutil.rmtree(first)
    clean(run(keep_statistics=False), IN_PROCESS, overwrite=False)
    assert not first.with_name(".work").exists()


@pytest.mark.parametrize("change", ["any language", "other"])
def test_statistics_that_no_limit_asks_for_change_nothing(run, afresh, change):
    kept, gone = documents(afresh(change)), removed(afresh(change))
    folder = clean_afresh(run(keep_statistics=False, **CHANGES[change]), IN_PROCESS)
    assert (documents(folder), removed(folder)) == (kept, gone)
    assert not folder.with_name(".work").exists()


def test_calibration_counts_what_each_limit_drops_and_cleaning_starts_from_it(
    run, monkeypatch, caplog
):
    lines = [*calibrate(run(keep_statistics=False), IN_PROCESS)]  # it keeps them nevertheless
    assert "set clean.keep_statistics = true" in caplog.text
    monkeypatch.setattr(annotate, "annotate_files", None)
    clean(run(), IN_PROCESS, overwrite=False)
    folder = Path(run().output_dir) / "clean"
    gone = removed(folder)
    assert "profile web: " in lines[0]
    in_all = len(documents(folder)) + len(gone)
    assert f"{in_all} documents" in lines[0]
    rows = {line.split()[0]: line.split() for line in lines if line.startswith(("min_", "max_"))}
    # the first rule: no other takes a document before it
    short = [row for row in gone if row["reason"] in ("empty", "too_short")]
    assert rows["min_characters"][1:3] == ["10", f"{100 * len(short) / in_all:.2f}"]
    shown = [line for line in lines if line.startswith("    dropped")]
    assert any("짧다" in line for line in shown)
    assert not any("010-1234" in line or "daum.net" in line for line in lines)


def test_a_proposal_leaves_a_tenth_beyond_it():
    values = np.random.default_rng(0).random(1000)
    for rule in RULES:
        proposed = propose(rule, values)
        assert proposed is None or rule.breaks(values, proposed).sum() == 100
    assert {rule.limit for rule in RULES if propose(rule, values) is not None} == {
        "min_words",
        "min_mean_word_length",
        "max_mean_word_length",
        "min_alphabetic_words",
        "min_sentence_ends",
        "max_newlines_per_word",
        "max_duplicate_lines",
        "max_duplicate_paragraphs",
        *(f"max_top_{n}gram" for n in (2, 3, 4)),
        *(f"max_duplicate_{n}gram" for n in range(5, 11)),
    }
