"""What fields of the config hold: the base of sections, types, names of tasks and runners.

A config is checked on machines that have no library to run a task. The records are in benchmarks/;
a test holds both equal.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from electrify.system.outcome import UserError, nearest

TABLES: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("tables.toml").read_text(encoding="utf-8")
)
_PASSWORD = re.compile(r"://[^/?#@:]*:(?![0-9]+(?:/|$))[^@]*@")  # not a port
_KEY = re.compile(r"[?&][^=&]*(?:token|key|sig|password|secret|credential)[^=&]*=", re.IGNORECASE)
_ONE_SLASH = re.compile(r"([a-z][a-z0-9+.-]+):/(?!/)")


def check_address(path: str) -> str:
    """The path or address itself; `ValueError` if an address has a password or a key in it, which
    manifests and reports would show, or one slash in place of two."""
    if "://" in path and (_PASSWORD.search(path) or _KEY.search(path)):
        protocol, _, rest = path.partition("://")
        host = rest.rpartition("@")[2].partition("/")[0]
        raise UserError(
            f"the address {protocol}://...{host}/... has a password or a key in it, which reports "
            "would show: leave it out, and give it to fsspec by its configuration file or by the "
            "variables of the service"
        )
    if match := _ONE_SLASH.match(path):
        raise UserError(f"{path!r}: an address has two slashes, as {match[1]}://bucket/folder")
    return path


Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=1, lt=2**63)]
Address = Annotated[str, AfterValidator(check_address)]
# ~ is the home folder
LocalPath = Annotated[str, AfterValidator(check_address), AfterValidator(os.path.expanduser)]


class Section(BaseModel):
    """A part of the config: frozen, strictly typed, no unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # the description of a key stands below it
    )


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The section in the type of a field, also in a list, a table or beside None; None without."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(section_of, get_args(annotation))), None)


class TrackerOptions(Section):
    """Boards of others that the figures of a stage also go to; each needs its own package."""

    wandb_project: str | None = None
    """Weights & Biases project that gets the figures."""
    trackio_project: str | None = None
    """trackio project that gets the figures."""
    mlflow_experiment: str | None = None
    """MLflow experiment that gets the figures."""


SUITE_TASKS: Mapping[str, tuple[str, ...]] = {
    suite: tuple(f"{suite}-{task}" for task in tasks) for suite, tasks in TABLES["tasks"].items()
} | {name: (name,) for name in ("xquad", "xnli", "paws-x")}
TASK_NAMES = tuple(task for tasks in SUITE_TASKS.values() for task in tasks)
# suites that look at tasks in another way (benchmarks/noise/); they have none of their own
NOISE_SUITES = ("robustness", "fairness")
# suites and tasks whose texts a corpus can be compared with
TEXT_NAMES = (*SUITE_TASKS, *TASK_NAMES)


def check_suite(name: str) -> str:
    """The name itself; `ValueError` if it is no suite's."""
    known = (*SUITE_TASKS, *NOISE_SUITES)
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
    return UserError(f"{name!r} is no suite, task or file{nearest(name, TEXT_NAMES)}")


def check_language(code: str) -> str:
    """The code itself; `ValueError` for one that is no language, with what may have been meant."""
    # here: pretraining alone needs no list of languages, nor the package that has it
    from langcodes import Language
    from langcodes.tag_parser import LanguageTagError

    try:
        language = Language.get(code)
    except LanguageTagError:
        language = None
    if language is None or language.language is None or not language.is_valid():
        meant = TABLES["language_hints"].get(code.strip().lower())
        raise UserError(
            f"{code!r} is no language code; "
            + (f"did you mean {meant!r}? " if meant else "")
            + "Write the ISO 639 code, such as ko, en, ja, zh, ceb"
        )
    if code == "kr":  # Kanuri has it, but who writes it means Korean
        raise UserError("'kr' is a country; did you mean 'ko'? Kanuri is written 'knc' here")
    if str(language) != code or code != language.language:
        raise UserError(f"{code!r} must be written {language.language!r} (ISO 639, no region)")
    return code


UNDETERMINED = "und"  # ISO 639: the language of a text in no language that is known


@lru_cache(maxsize=1000)
def is_language(code: str) -> bool:
    """Whether a config may name it; models and rows have codes of their own, too."""
    try:
        return check_language(code) == code
    except ValueError:
        return False


@lru_cache(maxsize=1000)
def language_code(name: str) -> str:
    """The code of a language as data sets name it: ko of `kor`, `kor_Hang` or `ko-KR`, zh of
    `cmn_Hani`."""
    from langcodes import Language
    from langcodes.tag_parser import LanguageTagError

    try:
        return Language.get(name).prefer_macrolanguage().language or name
    except LanguageTagError:
        return name


RUNNERS: list[str] = TABLES["beam"]["runners"]
_BY_NAME = {"local": "local"} | {
    key: name for name in RUNNERS for key in (name.lower(), name.lower().removesuffix("runner"))
}


def runner_name(name: str) -> str:
    """A runner as Beam writes it; a class with its module stays as it is.

    `ValueError` for another name, with the nearest.
    """
    if name.lower() in _BY_NAME:
        return _BY_NAME[name.lower()]
    if "." in name:
        return name
    raise UserError(
        f"{name!r} is no Beam runner{nearest(name, ('local', *RUNNERS))} (a runner of your own "
        "is written with its module, such as my_package.MyRunner)"
    )
