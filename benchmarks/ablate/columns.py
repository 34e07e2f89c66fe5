"""The columns of scores that a grid is read by: all tasks, those of a language, each task."""

from collections.abc import Iterable, Sequence

MEAN = "all tasks"
_LANGUAGES = {"klue": "ko", "korean": "ko", "glue": "en", "squad": "en"}  # of suites


def column_groups(tasks: Sequence[str]) -> dict[str, list[str]]:
    """The tasks of each column; a mean of one task is that task's column."""
    languages = _languages_of(tasks)
    columns = {MEAN: list(tasks)} if len(tasks) > 1 else {}
    if len(languages) > 1:
        columns |= {language: found for language, found in languages.items() if len(found) > 1}
    return columns | {task: [task] for task in tasks}


def _languages_of(tasks: Iterable[str]) -> dict[str, list[str]]:
    """The tasks of each language: KLUE's are Korean, GLUE's English."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        suite, _, rest = task.partition("-")
        language = rest if suite == "xquad" else _LANGUAGES.get(suite, suite)
        found.setdefault(language, []).append(task)
    return found
