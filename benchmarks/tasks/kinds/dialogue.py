"""The state of a dialogue after every user turn, as KLUE's Wizard of Seoul has it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import weighted
from benchmarks.metrics.dialogue import State, joint_goal_acc, pooled_slot_f1, slot_micro_f1
from benchmarks.tasks.kind import (
    Example,
    Failure,
    Features,
    Kind,
    Line,
    Outputs,
    Pair,
    listed,
    mostly_wrong,
    pairs_by_key,
)
from benchmarks.tasks.kinds.dialogue_state import (
    GATES,
    NONE,
    dialogue_pieces,
    dialogue_turns,
    gate_of,
    left_cut,
    recovered_state,
    slot_and_value,
    slot_values,
)
from benchmarks.tasks.task import Task
from electrify.storage.files import read_json

if TYPE_CHECKING:
    from torch import Generator, nn

    from benchmarks.tasks.heads.linear import Head

_METRICS: tuple[Callable[[Sequence[State], Sequence[State]], float], ...] = (
    slot_micro_f1,
    joint_goal_acc,
    pooled_slot_f1,
)
_TURNS_SHOWN = 3


@dataclass(frozen=True)
class TurnExample(Example):
    """A user turn with all turns before it, and the state that it leaves."""

    state: tuple[str, ...] | None = None


class DialogueStateTracking(Kind):
    """[CLS] turns [SEP], the oldest cut off; for every slot a gate and a generated value.

    The slots are the task's labels, in the order of the ontology. All turns of a dialogue fall on
    one side of a split, its first text being that of all of them.
    """

    units = "slots with a value"
    labels_are_confused = False
    failures_quote = True

    def read(self, task: Task, split: str, path: Path) -> Iterator[Example]:
        """User turns of an official file; `ValueError` names the dialogue."""
        dialogues = read_json(path)
        if not isinstance(dialogues, list):
            raise ValueError(
                f"{path} holds one {type(dialogues).__name__}, not a list of dialogues"
            )
        yield from _examples(task, split, dialogues, str(path))

    def from_hub(
        self, task: Task, split: str, rows: Iterable[Mapping[str, Any]]
    ) -> Iterator[Example]:
        """Rows of the hub, which has the fields of the official file."""
        yield from _examples(task, split, rows, f"{task.name} {split}")

    def num_rows(self, examples: Sequence[Example]) -> int:
        """Dialogues."""
        return len({example.id.rpartition("-")[0] for example in examples})

    def featurize(
        self,
        task: Task,
        examples: Sequence[Example],
        tokenizer: Any,
        max_length: int,
        train: bool,
    ) -> Features:
        """One row a user turn, of one segment; its older pieces are cut where it is too long."""

        first, separator = tokenizer.cls_token_id, tokenizer.sep_token_id

        @cache  # a turn stands in all rows after it
        def pieces(text: str) -> list[int]:
            ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
            return ids

        @cache  # one object for all the times that a slot has this value
        def target(value: str) -> tuple[int, ...]:
            return (*pieces(value), separator)

        input_ids, gates, values = [], [], []
        num_truncated = 0
        for example in examples:
            ids = dialogue_pieces([pieces(text) for text in example.texts], separator)
            num_truncated += len(ids) > max_length - 2
            row = left_cut(ids, max_length, first, separator)
            input_ids.append(np.array(row, dtype=np.int32))
            state = slot_values(_state(example) or ())
            found = [state.get(slot, NONE) for slot in task.labels]
            gates.append([gate_of(value) for value in found])
            values.append([target(value) for value in found])
        return Features(
            input_ids=input_ids,
            token_type_ids=[np.zeros(len(row), dtype=np.int32) for row in input_ids],
            example_of=np.arange(len(examples)),
            labels={
                "gates": gates,
                "values": values,
                "padding": [tokenizer.pad_token_id] * len(examples),
            },
            num_truncated=num_truncated,
            details={"tokenizer": [tokenizer] * len(examples)},  # that of generated ids
        )

    def label_arrays(
        self, features: Features, rows: NDArray[np.int64], length: int
    ) -> dict[str, NDArray[Any]]:
        """`gates` (B, J) and `values` (B, J, K), the pieces of a value and [SEP], then [PAD]."""
        gates = np.array([features.labels["gates"][row] for row in rows], dtype=np.int64)
        values = [features.labels["values"][row] for row in rows]
        longest = max(len(value) for slots in values for value in slots)
        array = np.full((*gates.shape, longest), features.labels["padding"][rows[0]])
        for row, slots in enumerate(values):
            for slot, value in enumerate(slots):
                array[row, slot, : len(value)] = value
        return {"gates": gates, "values": array}

    def make_head(
        self, task: Task, encoder: "nn.Module", tokenizer: Any, generator: "Generator"
    ) -> "Head":
        """The generator of KLUE-baseline, over the word embeddings of the encoder."""
        from benchmarks.tasks.heads.dialogue import SlotGenerator
        from benchmarks.tasks.heads.weights import drawn

        names = [slot.replace("-", " ") for slot in task.labels]
        slot_ids = tokenizer(names, add_special_tokens=False)["input_ids"]
        return drawn(lambda: SlotGenerator(encoder, slot_ids, tokenizer.pad_token_id), generator)

    def lines(
        self,
        task: Task,
        examples: Sequence[Example],
        features: Features,
        outputs: Sequence[Outputs],
    ) -> list[Line]:
        """The gold state as the file has it, and the one that gates and generated pieces say."""
        found = []
        rows = zip(examples, features.details["tokenizer"], outputs, strict=True)
        for example, tokenizer, output in rows:
            gates = [GATES[gate] for gate in output["gate_logits"].argmax(axis=-1)]
            generated = output["generated"].tolist()
            state = _state(example)
            found.append(
                {
                    "id": example.id,
                    "gold": None if state is None else list(state),
                    "prediction": recovered_state(task.labels, gates, generated, tokenizer),
                }
            )
        return found

    def score(self, task: Task, lines: Sequence[Line]) -> dict[str, float]:
        """KLUE's two metrics and the pooled F1."""
        gold = [line["gold"] for line in lines]
        predicted = [line["prediction"] for line in lines]
        return {
            metric.__name__: metric(gold, predicted) if lines else float("nan")
            for metric in _METRICS
        }

    def weighted_score(self, task: Task, lines: Sequence[Line]) -> weighted.Weighted:
        """KLUE's two metrics are means over turns."""
        metrics = {metric.__name__: metric for metric in (slot_micro_f1, joint_goal_acc)}
        metric = metrics[task.headline]
        return weighted.mean_of(
            np.array([metric([line["gold"]], [line["prediction"]]) for line in lines])
        )

    def pairs(self, task: Task, line: Line) -> list[Pair]:
        """Slots that have a value on either side, right where the values are equal."""
        return pairs_by_key(slot_values(line["gold"]), slot_values(line["prediction"]))

    def groups(self, task: Task, line: Line) -> dict[str, str]:
        """How much there is to remember."""
        count = len(line["gold"])
        bounds = ((0, "0"), (2, "1 to 2"), (5, "3 to 5"), (10, "6 to 10"))
        name = next((name for most, name in bounds if count <= most), "11 or more")
        return {"gold values": name}

    def failure(self, task: Task, runs: Sequence[Line], example: Example | None) -> Failure | None:
        """The values that the middle run misses, and those it makes up."""

        def wrong(line: Line) -> set[str]:
            return set(line["gold"]) ^ set(line["prediction"])

        line = mostly_wrong(runs, lambda line: len(wrong(line)))
        if line is None:
            return None
        missed, made_up = (
            [value for value in line[side] if value in wrong(line)]
            for side in ("gold", "prediction")
        )
        count = f"{len(missed)} of {len(line['gold'])} values missed, {len(made_up)} made up"
        return Failure(len(wrong(line)), listed(missed), listed(made_up), count)

    def shown(self, task: Task, example: Example, line: Line) -> list[tuple[str, str]]:
        """The last turns; the others stand in the examples before."""
        turns = example.texts[-_TURNS_SHOWN:]
        left_out = len(example.texts) - len(turns)
        before = [("", f"({left_out} turns before)")] if left_out else []
        return before + [("turn", text) for text in turns]


def _state(example: Example) -> tuple[str, ...] | None:
    assert isinstance(example, TurnExample)
    return example.state


def _examples(
    task: Task, split: str, dialogues: Iterable[Mapping[str, Any]], source: str
) -> Iterator[TurnExample]:
    slots, seen = set(task.labels), dict[str, int]()
    for number, dialogue in enumerate(dialogues, start=1):
        place = f"{source} dialogue {number}"
        if not isinstance(dialogue, Mapping) or not isinstance(dialogue.get("guid"), str):
            raise ValueError(f"{place}: no text in the field 'guid'")
        identity = dialogue["guid"]
        if identity in seen:
            raise ValueError(f"{place}: guid {identity!r} is that of dialogue {seen[identity]}")
        seen[identity] = number
        for turn, (texts, state) in enumerate(dialogue_turns(dialogue, place)):
            gold = None
            if split not in task.unlabelled:
                gold = _checked_state(state, slots, f"{place} user turn {turn + 1}")
            yield TurnExample(f"{identity}-{turn}", tuple(texts), gold)


def _checked_state(state: Any, slots: set[str], place: str) -> tuple[str, ...]:
    if not isinstance(state, list):
        raise ValueError(f"{place}: {state!r} is no list of states")
    for entry in state:
        if not isinstance(entry, str) or entry.count("-") < 2:
            raise ValueError(f"{place}: {entry!r} is not 'domain-slot-value'")
        if slot_and_value(entry)[0] not in slots:
            raise ValueError(
                f"{place}: unknown slot in {entry!r} (allowed: {', '.join(sorted(slots))})"
            )
    return tuple(state)
