"""`index.json` of a shards folder as it is read: its form, and names that stay inside."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from electrify.inner_path import inner_path
from electrify.json_text import read_json
from vocab.shard_writer import FORMAT_VERSION, INDEX, SPLITS, token_dtype
from vocab.wordpiece import SPECIAL_TOKENS

AGAIN = "make the shards again: electrify encode CONFIG --overwrite"


def _inner(name: str) -> str:
    inner_path(Path("shards"), name)
    return name


_Name = Annotated[str, AfterValidator(_inner)]  # of a file or folder
_Count = Annotated[int, Field(ge=0, lt=2**62)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)  # what is written beside, counts, is let through


class _Files(_Part):
    tokens: str
    offsets: str
    sentences: str


class _Shard(_Part):
    tokens: _Name
    offsets: _Name
    sentences: _Name
    num_documents: _Count
    num_sentences: _Count
    num_tokens: _Count
    sha256: _Files


class _Language(_Part):
    shards: list[_Shard]


class _Index(_Part):
    dtype: str
    vocab_size: Annotated[int, Field(ge=1, lt=2**32)]
    tokenizer_sha256: str
    special_token_ids: dict[str, _Count]
    splits: dict[_Name, dict[_Name, _Language]]


def read_index(folder: Path) -> dict[str, Any]:
    """The index as it was written; `ValueError` if it is missing, damaged or of another format."""
    path = folder / INDEX
    try:
        index: dict[str, Any] = read_json(path)
        found = index["format_version"]
    except FileNotFoundError:
        raise ValueError(f"no {path}; run first: electrify encode CONFIG") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error!r}); {AGAIN}") from None
    if found != FORMAT_VERSION:
        raise ValueError(f"{path} has format_version {found}, not {FORMAT_VERSION}; {AGAIN}")
    try:
        checked = _Index.model_validate(index)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path} is damaged ({where}: {first['msg']}); {AGAIN}") from None
    if missing := [split for split in SPLITS if split not in checked.splits]:
        raise ValueError(f"{path} is damaged (it has no split {missing[0]!r}); {AGAIN}")
    if missing := [token for token in SPECIAL_TOKENS if token not in checked.special_token_ids]:
        raise ValueError(f"{path} is damaged (it has no id of {missing[0]}); {AGAIN}")
    if checked.dtype != token_dtype(checked.vocab_size).name:
        raise ValueError(
            f"{path} has dtype {checked.dtype!r}, which does not fit vocab_size "
            f"{checked.vocab_size}; {AGAIN}"
        )
    return index
