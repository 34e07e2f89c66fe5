"""Made-up rows of all tasks of the hub, in the data sets, columns and splits of their records."""

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Features, List

from benchmarks.tasks.load import REVISIONS
from benchmarks.tasks.registry import KINDS, TASKS
from benchmarks.tasks.task import HubSource, Task
from tests.hub.server import Hub

_SENTENCE = "서울 한국 기차역에서 만나서 함께 떠나는 사람들"
_TAG = "ner_tags"
# what rows of a kind have beside texts and label
_OF_KIND: Mapping[str, Mapping[str, Any]] = {
    "relations": {
        "subject_entity": {"word": "서울", "start_idx": 0, "end_idx": 1, "type": "LOC"},
        "object_entity": {"word": "한국", "start_idx": 3, "end_idx": 4, "type": "LOC"},
    },
    "tagging-characters": {"tokens": list(_SENTENCE)},
    "tagging-tokens": {"tokens": list(_SENTENCE)},
    "parsing": {
        "word_form": ["서울한국기차역에서함께", "떠난다"],
        "pos": ["NNP+JKB", "VV+EF"],
        "head": [2, 0],
        "deprel": ["NP_AJT", "VP"],
    },
    "spans": {
        "context": _SENTENCE,
        "question": "어디?",
        "answers": {"text": ["서울"], "answer_start": [0]},
        "question_type": 1,
        "is_impossible": False,
    },
    "dialogue": {
        "dialogue": [
            {"role": "user", "text": "박물관을 찾아요.", "state": ["관광-종류-박물관"]},
            {"role": "sys", "text": "네.", "state": []},
        ]
    },
}


def add_tasks(hub: Hub) -> None:
    """Put the data sets of all tasks on the hub, each at the commit or name that is read."""
    sets: dict[str, dict[str, dict[str, bytes]]] = {}  # by path, configuration and split
    for task in TASKS.values():
        if task.hub:
            place = task.hub.path, task.hub.name
            of_set = {ours: (*place, theirs) for ours, theirs in task.hub.splits.items()}
            for ours, (path, config, theirs) in {**of_set, **task.hub.elsewhere}.items():
                configs = sets.setdefault(path, {})
                configs.setdefault(config or "default", {})[theirs] = _split(task, task.hub, ours)
    for path, configs in sets.items():
        is_converted = REVISIONS[path].startswith("refs/")  # by the hub, with other names of files
        end = "/0000.parquet" if is_converted else "-00000-of-00001.parquet"
        files = {f"{c}/{s}{end}": data for c, of in configs.items() for s, data in of.items()}
        if not is_converted:
            files["README.md"] = card(configs).encode()
        hub.add("datasets", path, files, REVISIONS[path])


def parquet(rows: Sequence[Mapping[str, Any]], features: Mapping[str, Any] | None = None) -> bytes:
    """A file that says its features, as those of the hub do; others than the given ones are those
    of the values."""
    found = Features.from_arrow_schema(pa.Table.from_pylist(list(rows)).schema)
    schema = Features({**found, **(features or {})}).arrow_schema
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), buffer)
    return buffer.getvalue()


def card(configs: Mapping[str, Iterable[str]]) -> str:
    """The README of a data set, which says what its configurations and splits are."""
    lines = ["---", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split in splits:
            lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    return "\n".join([*lines, "---", ""])


def _split(task: Task, hub: HubSource, split: str) -> bytes:
    (kind,) = (kind for kind, of in KINDS.items() if of is type(task))
    names = {ours: theirs for theirs, ours in hub.labels.items()}
    # class ids are another order than ours, and no hidden ones are known
    labels = ClassLabel(names=[names.get(label, label) for label in reversed(task.labels)] or ["0"])
    column, _, inner = hub.fields.get(task.label_field, task.label_field).partition(".")
    features: dict[str, Any] = {}
    rows = []
    for number in range(8 if split == "train" else 4):
        texts = {hub.fields.get(of, of): f"{_SENTENCE} {number}번" for of in task.text_fields}
        row = {**texts, **_OF_KIND.get(kind, {})}
        if kind in ("classification", "relations"):
            features[column] = labels
            row[column] = -1 if split in task.unlabelled else number % len(task.labels)
        elif kind == "regression":
            row[column] = {inner: number % 6.0} if inner else number % 6.0
        elif kind.startswith("tagging"):
            place = "LC" if "B-LC" in task.labels else "LOC"
            tags = [f"B-{place}", f"I-{place}", *"O" * (len(_SENTENCE) - 2)]
            features[_TAG], row[_TAG] = List(labels), [*map(labels.str2int, tags)]
        rows.append(row)
    return parquet(rows, features)
