"""Records of tasks: each has a name in the config, and one that cannot be scored is refused."""

import pytest

from benchmarks.tasks.registry import TASKS, read_suite
from electrify.config.fields import TASK_NAMES

RECORD = """
[shared]
suite = "korean"
version = "1"
kind = "classification"
text_fields = ["text"]
label_field = "label"
labels = ["no", "yes"]
metrics = ["accuracy"]

[tasks.mine]
files = { train = ["train.tsv"], test = ["test.tsv"] }
reported = "test"
unlabelled = []
"""


def test_every_record_can_be_named_and_every_name_has_a_record():
    assert set(TASK_NAMES) == TASKS.keys()


def test_a_record_that_cannot_be_scored_is_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(RECORD)
    assert read_suite(path)["mine"].reported == "test"
    path.write_text(RECORD.replace("unlabelled = []", ""))
    with pytest.raises(ValueError, match="task mine: test is reported, and unlabelled"):
        read_suite(path)
