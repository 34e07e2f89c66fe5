"""Progress seen from marker files."""

import logging
import time

import pytest

from pipeline.progress import share_name, watch


def test_each_phase_is_logged_when_its_files_are_there(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electrify"), "propagate", True)
    caplog.set_level(logging.INFO, "electrify")
    read, written = {"r1": 3.0, "r2": 4.0}, {"w1": 5.0, "w2": 6.0}

    def list_names():
        return [path.name for path in tmp_path.iterdir()]

    with watch([("reading", read), ("writing", written)], "MB", list_names, 0.01):
        for name in ("r1", "r2", "w1"):
            (tmp_path / name).touch()
            time.sleep(0.03)
    assert "reading: 7/7 MB (100 %)" in caplog.text
    assert "writing: 5/11 MB (45 %)" in caplog.text


def test_a_part_counts_by_the_largest_share_that_it_has_left(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electrify"), "propagate", True)
    caplog.set_level(logging.INFO, "electrify")
    names = [share_name("r1", 0.5), share_name("r1", 0.25), share_name("r9", 1.0), "r2", "r2.tmp"]
    with watch([("reading", {"r1": 40.0, "r2": 10.0})], "MB", lambda: names, 0.01):
        time.sleep(0.05)
    assert "reading: 30/50 MB (60 %)" in caplog.text


def test_a_folder_that_cannot_be_listed_now_stops_nothing(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electrify"), "propagate", True)
    caplog.set_level(logging.INFO, "electrify")
    answers = iter([OSError("no network"), ["r1"]])

    def list_names():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with watch([("reading", {"r1": 3.0})], "MB", list_names, 0.01):
        time.sleep(0.1)
    assert "reading: 3/3 MB (100 %)" in caplog.text


def test_an_error_passes_through():
    with pytest.raises(KeyError, match="own"), watch([("reading", {"a": 1.0})], "MB", list):
        raise KeyError("own")
