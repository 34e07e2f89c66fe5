"""Progress seen from marker files."""

import logging
import time

import pytest

from pipeline import watch as watch_module
from pipeline.watch import watch


def test_each_phase_is_logged_when_its_files_are_there(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electrify"), "propagate", True)
    monkeypatch.setattr(watch_module, "POLL_SECONDS", 0.01)
    caplog.set_level(logging.INFO, "electrify")
    read = {tmp_path / "r1": 3.0, tmp_path / "r2": 4.0}
    written = {tmp_path / "w1": 5.0, tmp_path / "w2": 6.0}
    with watch([("reading", read), ("writing", written)], "MB"):
        for name in ("r1", "r2", "w1"):
            (tmp_path / name).touch()
            time.sleep(0.03)
    assert "reading: 7/7 MB (100 %)" in caplog.text
    assert "writing: 5/11 MB (45 %)" in caplog.text


def test_an_error_passes_through(tmp_path):
    never = {tmp_path / "never": 1.0}
    with pytest.raises(KeyError, match="own"), watch([("reading", never)], "MB"):
        raise KeyError("own")
