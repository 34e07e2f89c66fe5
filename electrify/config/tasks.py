"""The names of benchmark suites and tasks.

A config is checked with them on machines that have no library to run a task. The records are in
benchmarks/; a test holds both equal.
"""

from collections.abc import Mapping

from electrify.system.outcome import UserError, nearest

_TASKS = {
    "glue": "cola sst2 mrpc stsb qqp mnli qnli rte wnli",
    "squad": "1.1 2.0",
    "klue": "ynat sts nli ner re dp wos mrc",
    "korean": "nsmc naver-ner paws-x kornli korsts question-pair hate-speech korquad",
}
SUITE_TASKS: Mapping[str, tuple[str, ...]] = {
    suite: tuple(f"{suite}-{task}" for task in tasks.split()) for suite, tasks in _TASKS.items()
} | {"xquad": ("xquad",)}
TASK_NAMES = (
    *(task for tasks in SUITE_TASKS.values() for task in tasks),
    "klue-dp-without-pos",
    "squad-1.1-span",
    "squad-2.0-span",  # run when named alone
)
# suites that look at tasks in another way (benchmarks/probes/); they have no tasks of their own
PROBE_SUITES = ("robustness", "fairness")
# suites and tasks whose texts a corpus can be compared with
TEXT_NAMES = (*SUITE_TASKS, *TASK_NAMES)


def check_suite(name: str) -> str:
    """The name itself; `ValueError` if it is no suite's."""
    known = (*SUITE_TASKS, *PROBE_SUITES)
    if name not in known:
        raise UserError(f"unknown suite {name!r}{nearest(name, known)} (known: {', '.join(known)})")
    return name


def check_task(name: str) -> str:
    """The name itself; `ValueError` if it is no task's, with the nearest."""
    if name not in TASK_NAMES:
        raise UserError(
            f"unknown task {name!r}{nearest(name, TASK_NAMES)} (`electrify ls` lists all tasks)"
        )
    return name


def check_texts(name: str) -> str:
    """The name itself; `ValueError` if it is no suite's or task's, and no path of a file."""
    if name not in TEXT_NAMES and not {"/", "."} & set(name):
        raise UserError(f"{unknown_texts(name)} (a file of this folder is written ./{name})")
    return name


def unknown_texts(name: str) -> UserError:
    """The error for what is neither a suite or task nor a file."""
    return UserError(f"{name!r} is no suite, task or file{nearest(name, TEXT_NAMES)}")
