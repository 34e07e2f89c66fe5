"""Dialogue states of the Wizard of Seoul: slots, gates, and values from generated pieces.

KLUE-baseline klue_baseline/data/wos.py. A state is a list of "domain-slot-value". For every slot a
gate says none, dontcare, yes or no, or that the value is generated (ptr).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.tasks.kinds.subwords import continuation_prefix, joined

GATES = ("none", "dontcare", "ptr", "yes", "no")
GENERATED = GATES.index("ptr")
NONE = "none"  # the gate of a slot without value; learnt as its value as well


def slot_and_value(entry: str) -> tuple[str, str]:
    """'domain-slot-value' as 'domain-slot' and the value, which may hold hyphens itself."""
    domain, slot, value = entry.split("-", 2)
    return f"{domain}-{slot}", value.strip() if "-" in value else value


def slot_values(state: Sequence[str]) -> dict[str, str]:
    """Value by slot; of a slot given twice the last."""
    return dict(slot_and_value(entry) for entry in state)


def gate_of(value: str) -> int:
    """The gate of a value: its own if it is the name of one, else `GENERATED`."""
    return GATES.index(value) if value in GATES else GENERATED


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
    text = joined(tokenizer.convert_ids_to_tokens(list(ids)), prefix)
    return text.replace(" : ", ":").replace(" , ", ", ").replace(prefix, "")


def dialogue_turns(dialogue: Mapping[str, Any], place: str) -> list[tuple[list[str], Any]]:
    """Of every user turn the texts up to and with it, and its state.

    The texts are those of the user turns, each behind what was said right before it; nothing stands
    before the first. Raises `ValueError` with `place` for turns of another form.
    """
    turns = dialogue.get("dialogue")
    if not isinstance(turns, list) or not turns:
        raise ValueError(f"{place}: no list of turns in the field 'dialogue'")
    texts, found = list[str](), []
    for number, turn in enumerate(turns):
        if not isinstance(turn, Mapping) or not isinstance(turn.get("text"), str):
            raise ValueError(f"{place} turn {number + 1}: {turn!r} has no text")
        if turn.get("role") != "user":
            continue
        texts += [turns[number - 1]["text"], turn["text"]] if number else [turn["text"]]
        found.append((list(texts), turn.get("state")))
    return found


def dialogue_pieces(texts: Sequence[Sequence[int]], separator: int) -> list[int]:
    """Token ids of turns in one row, [SEP] before each; the first turn alone has two before it.

    An oddity of the official code: the system turn before the first one is taken as empty, and
    left out again once the dialogue goes on.
    """
    ids = [separator] if len(texts) == 1 else []
    for text in texts:
        ids += [separator, *text]
    return ids


def left_cut(ids: Sequence[int], max_length: int, first: int, last: int) -> list[int]:
    """[CLS] and [SEP] around the last `max_length` - 2 ids."""
    return [first, *ids[max(0, len(ids) - (max_length - 2)) :], last]
