"""The state of a dialogue after every user turn, as KLUE's Wizard of Seoul has it.

KLUE-baseline klue_baseline/data/wos.py. A state is a list of "domain-slot-value". For every slot a
gate says none, dontcare, yes or no, or that the value is generated (ptr).
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.metrics.structured import slot_micro_f1
from benchmarks.tasks.features import continuation_prefix
from benchmarks.tasks.rows import Row, list_field, text_field
from benchmarks.tasks.task import (
    Arrays,
    Details,
    Features,
    GoldExample,
    Outputs,
    Positions,
    Prediction,
    Predictions,
    Sampler,
    Task,
)
from electrify.system.outcome import UserError

GATES = ("none", "dontcare", "ptr", "yes", "no")
GENERATED = GATES.index("ptr")
# `clean_up_tokenization` of transformers 3.5.1, in its order: these lose their blanks
_CLEAN_UP = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
NONE = "none"  # the gate of a slot without value; learnt as its value as well


def slot_and_value(entry: str) -> tuple[str, str]:
    """'domain-slot-value' as 'domain-slot' and the value, which may hold hyphens itself."""
    domain, slot, value = entry.split("-", 2)
    return f"{domain}-{slot}", value.strip() if "-" in value else value


def slot_values(state: Sequence[str]) -> dict[str, str]:
    """Value by slot; of a slot given twice the last."""
    return dict(slot_and_value(entry) for entry in state)


def recovered_state(
    slots: Sequence[str], gates: Sequence[str], generated: Sequence[Sequence[int]], tokenizer: Any
) -> list[str]:
    """The state that gates and generated token ids say, in the order of the slots.

    A generated value ends before the first special token, [UNK] being one; it may be empty. A
    value "none" is none. `generated` holds the ids of every slot, read where the gate is ptr.
    """
    special = set(tokenizer.all_special_ids)
    state = []
    for slot, gate, ids in zip(slots, gates, generated, strict=True):
        value = gate
        if gate == GATES[GENERATED]:
            length = next((n for n, i in enumerate(ids) if i in special), len(ids))
            value = value_text(ids[:length], tokenizer)
        if value != NONE:
            state.append(f"{slot}-{value}")
    return state


def value_text(ids: Sequence[int], tokenizer: Any) -> str:
    """Generated ids as a value. With WordPiece as the official code has it: blanks stay where the
    tokenizer cut at punctuation, so that "a=b" comes back as "a = b" and equals no gold value."""
    prefix = continuation_prefix(tokenizer)
    if prefix is None:
        return str(tokenizer.decode(list(ids), skip_special_tokens=True)).strip()
    text = " ".join(tokenizer.convert_ids_to_tokens(list(ids))).replace(f" {prefix}", "").strip()
    for spaced in _CLEAN_UP:
        text = text.replace(spaced, spaced.strip())
    return text.replace(" : ", ":").replace(" , ", ", ").replace(prefix, "")


class DialogueStateTracking(Task):
    """[CLS] turns [SEP], the oldest cut off; for every slot a gate and a generated value.

    The slots are the task's labels, in the order of the ontology. All turns of a dialogue fall on
    one side of a split, its first text being that of all of them.
    """

    row_name = "dialogue"

    def texts(self, row: Row, location: str) -> tuple[str, ...]:
        turns = list_field(row, "dialogue", location)
        if not turns:
            raise UserError(f"{location}: no turns in the field 'dialogue'")
        return tuple(
            text_field(turn, "text", f"{location} turn {n}")
            for n, turn in enumerate(turns, start=1)
        )

    def examples(
        self, row: Row, identity: str, location: str, is_labelled: bool
    ) -> Iterator[GoldExample]:
        """Every user turn with all before it, each behind what was said right before it; and the
        state that the turn leaves."""
        turns, texts = self.texts(row, location), list[str]()
        users = [n for n, turn in enumerate(row["dialogue"]) if turn.get("role") == "user"]
        for count, number in enumerate(users):
            texts += turns[max(0, number - 1) : number + 1]
            gold = None
            if is_labelled:
                state = row["dialogue"][number].get("state")
                gold = _checked_state(state, self.labels, f"{location} user turn {count + 1}")
            yield GoldExample(f"{identity}-{count}", tuple(texts), gold)

    def count_rows(self, examples: Sequence[GoldExample]) -> int:
        return len({example.id.rpartition("-")[0] for example in examples})

    def featurize(
        self, examples: Sequence[GoldExample], tokenizer: Any, max_length: int, train: bool
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
            # [SEP] before each turn. The first alone has two: an oddity of the official code, which
            # takes the system turn before it as empty and leaves it out once the dialogue continues
            ids = [separator] if len(example.texts) == 1 else []
            for text in example.texts:
                ids += [separator, *pieces(text)]
            num_truncated += len(ids) > max_length - 2
            kept = ids[max(0, len(ids) - (max_length - 2)) :]
            input_ids.append([first, *kept, separator])
            state = slot_values(example.gold or ())
            slot_state = [state.get(slot, NONE) for slot in self.labels]
            gates.append([GATES.index(v) if v in GATES else GENERATED for v in slot_state])
            values.append([target(value) for value in slot_state])
        padding, tokenizers = ([one] * len(examples) for one in (tokenizer.pad_token_id, tokenizer))
        return Features.from_rows(
            input_ids,
            labels={"gates": gates, "values": values, "padding": padding},
            num_truncated=num_truncated,
            details={"tokenizer": tokenizers},  # that of generated ids
        )

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`gates` (B, J) and `values` (B, J, K), the pieces of a value and [SEP], then [PAD]."""
        gates = np.array([features.labels["gates"][row] for row in rows], dtype=np.int64)
        values = [features.labels["values"][row] for row in rows]
        longest = max(len(value) for slots in values for value in slots)
        array = np.full((*gates.shape, longest), features.labels["padding"][rows[0]])
        for row, slots in enumerate(values):
            for slot, value in enumerate(slots):
                array[row, slot, : len(value)] = value
        return {"gates": gates, "values": array}

    def prediction(self, example: GoldExample, output: Outputs, details: Details) -> Prediction:
        """The gold state as the file has it, and the one that gates and generated pieces say."""
        gates = [GATES[gate] for gate in output["gate_logits"].argmax(axis=-1)]
        generated, tokenizer = output["generated"].tolist(), details["tokenizer"]
        return {
            "gold": None if example.gold is None else list(example.gold),
            "prediction": recovered_state(self.labels, gates, generated, tokenizer),
        }

    def headline_sampler(self, predictions: Predictions) -> Sampler:
        scores = np.array([slot_micro_f1([p["gold"]], [p["prediction"]]) for p in predictions])
        return lambda positions: float(scores[positions].mean())

    def error(self, prediction: Prediction) -> float:
        return 1 - slot_micro_f1([prediction["gold"]], [prediction["prediction"]])


def _checked_state(state: Any, slots: Sequence[str], location: str) -> tuple[str, ...]:
    if not isinstance(state, list):
        raise UserError(f"{location}: {state!r:.80} is no list of states")
    for entry in state:
        if not isinstance(entry, str) or entry.count("-") < 2:
            raise UserError(f"{location}: {entry!r:.80} is not 'domain-slot-value'")
        if slot_and_value(entry)[0] not in slots:
            raise UserError(f"{location}: unknown slot in {entry!r} (allowed: {', '.join(slots)})")
    return tuple(state)
