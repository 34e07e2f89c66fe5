"""Whether two scores of one task may stand in one order: the same rows, the same recipe."""

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.finetune.recipe import departures
from benchmarks.results.results import Result, differing, task_of
from electrify.config.evaluate import SearchOptions

_TRIALS = re.compile(r"trial \d+ of (\d+)")


def protocol_of(result: Result) -> Mapping[str, Any]:
    """The recipe of a fine-tuning, and each setting that is not the recipe's own.

    A recipe has its own rates for each size of a network: an encoder of size small and one of size
    base follow one recipe. What a search chose is free; how many trials it had is not.
    """
    settings = result.hyper_parameters
    protocol = {"recipe": settings.get("recipe"), **departures(task_of(result), settings)}
    if result.search:
        for name in SearchOptions.model_fields:
            protocol.pop(name, None)
        trials = _TRIALS.match(str(result.search.get("best", "")))
        protocol["trials of the search"] = trials[1] if trials else "not known"
        # of a full grid, as they were before, the whole
        protocol["steps of its trials"] = result.search.get("fraction_of_steps", 1.0)
    protocol["selection"] = result.selection
    return protocol | {"fraction of the training rows": result.train_fraction}


def protocol_differences(result: Result, other: Result) -> list[str]:
    """What keeps the two from being compared, each in words; empty where nothing does."""
    if what := differing(result, other):
        return [f"other {what}" if what == "data sha256" else f"another {what}"]
    first, second = protocol_of(result), protocol_of(other)
    return [
        f"{name.replace('_', ' ')} {_value(first, name)} and {_value(second, name)}"
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name)
    ]


def _value(protocol: Mapping[str, Any], name: str) -> str:
    return str(protocol[name]) if name in protocol else "of the recipe"
