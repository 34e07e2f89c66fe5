"""The names of benchmark suites and tasks.

A config is checked with them on machines that have no library to run a task. The records are in
benchmarks/; a test holds both equal.
"""

from collections.abc import Mapping

from electrify.system.outcome import nearest

_XQUAD_LANGUAGES = ("ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
SUITE_TASKS: Mapping[str, tuple[str, ...]] = {
    "glue": (
        "glue-cola",
        "glue-sst2",
        "glue-mrpc",
        "glue-stsb",
        "glue-qqp",
        "glue-mnli",
        "glue-qnli",
        "glue-rte",
        "glue-wnli",
    ),
    "squad": ("squad-1.1", "squad-2.0"),
    "xquad": tuple(f"xquad-{code}" for code in _XQUAD_LANGUAGES),
    "klue": (
        "klue-ynat",
        "klue-sts",
        "klue-nli",
        "klue-ner",
        "klue-re",
        "klue-dp",
        "klue-wos",
        "klue-mrc",
    ),
    "korean": (
        "korean-nsmc",
        "korean-naver-ner",
        "korean-paws-x",
        "korean-kornli",
        "korean-korsts",
        "korean-question-pair",
        "korean-hate-speech",
        "korean-korquad",
    ),
}
TASK_NAMES = (
    *(task for tasks in SUITE_TASKS.values() for task in tasks),
    "klue-dp-without-pos",
    "squad-1.1-span",
    "squad-2.0-span",  # run when named alone
)
# suites and tasks whose texts a corpus can be compared with
TEXT_NAMES = (
    *SUITE_TASKS,
    *TASK_NAMES,
    "glue-diagnostic",
    "hate-speech",
    "kornli",
    "korquad",
    "korquad-v1",
    "korsts",
    "nsmc",
)


def check_suite(name: str) -> str:
    """The name itself; `ValueError` if it is no suite's."""
    if name not in SUITE_TASKS:
        raise ValueError(
            f"unknown suite {name!r}{nearest(name, SUITE_TASKS)} (known: {', '.join(SUITE_TASKS)})"
        )
    return name


def check_task(name: str) -> str:
    """The name itself; `ValueError` if it is no task's, with the nearest."""
    if name not in TASK_NAMES:
        raise ValueError(
            f"unknown task {name!r}{nearest(name, TASK_NAMES)} `electrify ls` lists them all"
        )
    return name


def check_texts(name: str) -> str:
    """The name itself; `ValueError` if it is no suite's or task's, and no path of a file."""
    if name not in TEXT_NAMES and not {"/", "."} & set(name):
        raise ValueError(f"{unknown_texts(name)} A file of this folder is written ./{name}")
    return name


def unknown_texts(name: str) -> ValueError:
    """The error for what is neither a suite or task nor a file."""
    return ValueError(f"{name!r} is no suite, task or file{nearest(name, TEXT_NAMES)}")
