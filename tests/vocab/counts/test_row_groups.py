import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from pipeline.documents import list_row_groups
from vocab.counts.row_groups import read_columns
from vocab.counts.table import strings_of


def test_batches_are_even_in_bytes_however_documents_lie(write_documents, tmp_path):
    texts = ["가" * 10] * 500 + ["가" * 20_000] * 20  # short ones, then long ones
    (path,) = write_documents(tmp_path, [("ko", text) for text in texts], 1, len(texts))
    (group,) = list_row_groups([path])
    assert group.num_bytes > 0
    assert pq.read_metadata(path).num_row_groups == 1
    batches = list(read_columns(group, 100_000))
    sizes = [sum(map(len, batch.column("text").to_pylist())) * 3 for batch in batches]
    assert len(batches) > 10
    assert max(sizes) < 100_000 + 60_000  # and the document that goes over
    assert [text for batch in batches for text in batch.column("text").to_pylist()] == texts


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))))
def test_strings_are_those_of_the_column(strings):
    assert strings_of(pa.array(strings, pa.string())) == strings
    assert strings_of(pa.array(["x", *strings], pa.string()).slice(1)) == strings
