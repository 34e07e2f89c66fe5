"""What the Hugging Face hub did not give or take, in one line for the user."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electrify.system.outcome import UserError, first_line
from electrify.system.progress import log, warn

_LOG_IN = "hf auth login"
_ANSWERS = {
    401: f"the hub has nothing of this name that you may use; if it is private, log in: {_LOG_IN}",
    403: f"you may not use it: ask for access on its page, then log in: {_LOG_IN}",
    429: f"the hub has too many requests of you (429): wait some minutes, or log in: {_LOG_IN}",
}


def try_hub() -> None:
    """One request to the hub; where it fails, the cache alone is read from then on. Its clients
    would try six times for each task or model, some 30 s."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return
    try:
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception as error:  # of httpx or requests, by version
        warn(
            f"{constants.ENDPOINT} cannot be reached ({first_line(error)}): only what "
            "is in the cache here is read"
        )
        constants.HF_HUB_OFFLINE = True


def file_beside(path: str, name: str, commit: str | None) -> Path | None:
    """A further file of a model folder or hub name; None where it has none. Raises `ValueError`
    where the hub fails: it may have one."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    if Path(path).is_dir():
        file = Path(path, name)
        return file if file.is_file() else None
    try:
        return Path(hf_hub_download(path, name, revision=commit))
    except (EntryNotFoundError, LocalEntryNotFoundError):
        return None
    except Exception as error:  # of the network
        raise UserError(f"{path}/{name}: {hub_failure(error)}") from error


def load_splits(path: str, config: str | None, revision: str | None) -> Any:
    """All splits of a data set of the hub, from the cache if they are there; else the log says how
    many megabytes are downloaded, where its card tells.

    Raises what `datasets` raises: `hub_failure` explains it.
    """
    import datasets

    builder = datasets.load_dataset_builder(path, config, revision=revision)
    size = builder.info.download_size
    if size and not Path(builder.cache_dir).is_dir():
        log(f"{path}: {size / 1e6:,.1f} MB of data to download")
    builder.download_and_prepare()
    return builder.as_dataset()


def hub_failure(error: BaseException) -> str:
    """Why a call of `datasets`, `huggingface_hub` or `transformers` failed, and the next step.

    These wrap the hub's answer in errors of many kinds, the first of which may say "not found"
    where the hub is busy. Of another error it is the first line.
    """
    for each in _causes(error):
        name, status = type(each).__name__, _status(each)
        if "Offline" in name:
            return (
                "HF_HUB_OFFLINE is set or the hub was not reached, and the cache here has no copy: "
                "look at the network and try again"
            )
        if status in _ANSWERS:
            return _ANSWERS[status]
        if status >= 500:
            return f"the hub fails ({status}): try again in some minutes"
        is_transport = type(each).__module__.startswith(("httpx", "httpcore", "requests"))
        if not status and (is_transport or isinstance(each, ConnectionError | TimeoutError)):
            what = f"{name}: {first_line(each)}"
            return f"the connection to the hub fails ({what}): look at the network and try again"
    return first_line(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from or during."""
    seen: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in seen:
        seen.append(each)
        yield each
        each = each.__cause__ or each.__context__


def _status(error: BaseException) -> int:
    """Of the answer that an error carries; 0 where it has none. `datasets` says it in words."""
    if type(error).__name__ == "DatasetNotFoundError":
        return 403 if "gated" in str(error) else 401
    return int(getattr(getattr(error, "response", None), "status_code", 0) or 0)
