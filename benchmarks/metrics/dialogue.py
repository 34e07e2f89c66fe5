"""Metrics of dialogue state tracking as KLUE's Wizard of Seoul has them.

KLUE-baseline klue_baseline/metrics/functional.py `wos_jga`, `wos_slot_micro_f1` and utils.py
`compute_prf_for_wos` (from the code of TRADE), which print them times 100. A state is a list of
"domain-slot-value", one list a user turn.
"""

from collections.abc import Sequence

from electrify.system.outcome import UserError

State = Sequence[str]


def joint_goal_acc(gold: Sequence[State], predicted: Sequence[State]) -> float:
    """Share of turns whose states are equal as sets; 0 over no turns."""
    turns = _turns(gold, predicted)
    return sum(set(a) == set(b) for a, b in turns) / len(turns) if turns else 0.0


def slot_micro_f1(gold: Sequence[State], predicted: Sequence[State]) -> float:
    """Mean over turns of the F1 of a turn, which is no micro average; 0 over no turns.

    Two empty states have F1 1, an empty gold state and a predicted one 0. What stands twice in a
    state counts twice.
    """
    turns = _turns(gold, predicted)
    return sum(_turn_f1(a, b) for a, b in turns) / len(turns) if turns else 0.0


def pooled_slot_f1(gold: Sequence[State], predicted: Sequence[State]) -> float:
    """F1 over the slot values of all turns together, each once a turn: the real micro average.

    1 where no turn has a value on either side, nan over no turns.
    """
    turns = [(set(a), set(b)) for a, b in _turns(gold, predicted)]
    if not turns:
        return float("nan")
    num_right = sum(len(a & b) for a, b in turns)
    num_claimed = sum(len(a) + len(b) for a, b in turns)
    return 2 * num_right / num_claimed if num_claimed else 1.0


def _turn_f1(gold: State, predicted: State) -> float:
    if not gold:
        return float(not predicted)
    num_found = sum(value in predicted for value in gold)
    num_false = sum(value not in gold for value in predicted)
    if not num_found:
        return 0.0
    precision, recall = num_found / (num_found + num_false), num_found / len(gold)
    return 2 * precision * recall / (precision + recall)


def _turns(gold: Sequence[State], predicted: Sequence[State]) -> list[tuple[State, State]]:
    if len(gold) != len(predicted):
        raise UserError(
            f"{len(gold)} gold states and {len(predicted)} predicted ones; give one a turn in both"
        )
    return list(zip(gold, predicted, strict=True))
