"""A table in its forms."""

import csv
import io
import re

from benchmarks.results.table import Table
from electrify.page.page import Page, markdown_text

TABLE = Table(["task", "score", "note"], [["a | b", 0.5, None], ["c", 12345, "x, y"]], "Scores")


def test_markdown_tables_are_well_formed():
    hostile = "a | b `c` <script>*x*_y_ [z](u) $m$ ~~ \\ \n\n| 가\x00"
    table = Table(["n", hostile], [[1, hostile], [hostile, None]]).markdown()
    for line in table:
        assert len(re.findall(r"(?<!\\)\|", line)) == 3, line
    # every sign that marks something up is escaped
    written = "\n".join([*table, markdown_text(hostile)]).replace("\\\\", "")
    assert not re.search(r"(?<!\\)[`*_<>$~\[\]]", written)


def test_every_form_has_the_same_cells():
    page = Page("t")
    TABLE.add_to(page)
    assert TABLE.markdown()[2:] == ["| a \\| b | 0.5 | – |", "| c | 12,345 | x, y |"]
    assert "\n".join(TABLE.markdown()) in page.markdown()
    assert TABLE.terminal() == ["task   score note", "a | b    0.5 –", "c     12,345 x, y"]
    wide = Table(["task", "score"], [["리뷰", 1], ["tc", 10]])  # a syllable takes two columns
    assert wide.terminal() == ["task score", "리뷰     1", "tc      10"]
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows == [["task", "score", "note"], ["a | b", "0.5", ""], ["c", "12345", "x, y"]]
