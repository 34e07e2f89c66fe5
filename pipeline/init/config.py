"""The verb `init`: a config for text that nobody has described, sized by how much there is."""

import re
import shlex
import textwrap
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from string import Template
from typing import Any

from electrify.config.load import parse_config, toml_value
from electrify.system.bundled import SHIPPED, find_bundled
from electrify.system.outcome import UserError
from pipeline.init.survey import BYTES_A_TOKEN, OTHER_FRACTION, FoundSource, survey
from pipeline.sources.readers import KIND_OF_ENDING
from pipeline.sources.stored import is_member

# up to four passes teach nearly as much as new text (Muennighoff et al. 2023, "Scaling
# Data-Constrained Language Models")
NUM_PASSES = 4
# Korean text below which an encoder from random initialisation is not worth its time
FEW_TOKENS = 20_000_000
_FEW_DOCUMENTS = 100
_MANY_SOURCES = 20
# of a table that a classifier is meant to learn from, not of a corpus with tags and categories
_LABEL_FIELDS = {"label", "labels", "라벨", "레이블", "정답", "분류"}

# of files that --own-task reads (`benchmarks.tasks.files`)
_OWN_TASK_SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet")

_TABLES = tomllib.loads(Path(__file__).with_name("networks.toml").read_text(encoding="utf-8"))
_HEADLINES = "pipeline/sample/made-up-headlines.json"


def init(path: str, output: str | None) -> list[str]:
    """Write a config for the text at a path; return what it holds and the next command, in lines.

    Raises `ValueError` for a path without text that any kind of source reads, and for an output
    that is there already.
    """
    label = Path(output).stem if output else Path(path).resolve().name.split(".")[0]
    name = _run_name(label, may_be_another=output is not None)
    target = Path(output or f"{name}.toml")
    if target.exists():
        raise UserError(f"{target} exists and is not overwritten; give another `output`")
    there = next(folder for folder in target.absolute().parents if folder.exists())
    if not there.is_dir():
        raise UserError(f"{target} cannot be written: {there} is a file; give another `output`")
    if "://" in path:
        raise UserError(
            f"{path} is an address, and init reads local files: copy some files here, then change "
            "the paths in the config"
        )
    sources, unread = survey(Path(path))
    if not sources:
        what = "; ".join(unread) or "there is nothing in it"
        raise UserError(
            f"{path} has no text that a kind of source reads: {what}. Read are "
            f"{' '.join(KIND_OF_ENDING)} (.xml of Wikipedia dumps), plain, packed (.gz .zst .bz2 "
            ".xz) or in a .zip"
        )
    num_tokens = int(sum(source.amount.num_bytes for source in sources) // BYTES_A_TOKEN)
    network = _TABLES["networks"][_network(_languages(sources), num_tokens)]
    text = _config(name, target, sources, num_tokens, network)
    parse_config(tomllib.loads(text), str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("x", encoding="utf-8") as file:
        file.write(text)
    lines = [line for source in sources for line in _describe(source)]
    lines += [f"not read: {reason}" for reason in unread]
    if len(sources) > _MANY_SOURCES:
        lines.append(f"{len(sources)} sources: sort files that agree into folders of their own")
    if sum(source.amount.num_documents for source in sources) < _FEW_DOCUMENTS:
        lines.append(
            "few documents: a fifth of them is held out for validation. Check that the sources cut "
            "the text into documents as you want"
        )
    quoted = shlex.quote(str(target))
    return [
        *lines,
        f"in all {_about(num_tokens)} tokens: {network['why']}",
        f"\nwrote {target}; look at its sources, then: electrify validate {quoted}",
    ]


def _run_name(label: str, may_be_another: bool) -> str:
    """The label in the letters that a run's name may have, Hangul as Unicode spells it. A number
    tells it from what is there: of a label whose letters are lost, or of an output elsewhere."""
    spelt = "".join(
        unicodedata.name(letter, "").partition("HANGUL SYLLABLE ")[2] or letter
        for letter in unicodedata.normalize("NFC", label)
    )
    name = re.sub(r"[^a-z0-9._-]+", "-", spelt.lower()).strip("-._") or "my-text"
    if spelt.isascii() and not may_be_another:
        return name
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(n for n in names if not (Path("out", n).exists() or Path(f"{n}.toml").exists()))


def _languages(sources: Sequence[FoundSource]) -> Counter[str]:
    """Estimated bytes of text by language, without what is an accident in its source."""
    languages: Counter[str] = Counter()
    for source in sources:
        known = source.language_bytes or {source.source.language: 1}
        for language, size in known.items():
            fraction = size / sum(known.values())
            if fraction >= OTHER_FRACTION:
                languages[language] += round(fraction * source.amount.num_bytes)
    return languages


def _network(languages: Counter[str], num_tokens: int) -> str:
    is_korean = languages["ko"] * 2 >= languages.total()
    if is_korean and num_tokens < FEW_TOKENS:
        return "shipped"
    if num_tokens < 1_000_000:
        return "scratch"
    return "tiny" if num_tokens < 100_000_000 else "small"


def _config(
    name: str,
    target: Path,
    sources: Sequence[FoundSource],
    num_tokens: int,
    network: Mapping[str, Any],
) -> str:
    num_documents = sum(source.amount.num_documents for source in sources)
    languages = _languages(sources)
    batch_tokens = network["batch_size"] * network["sequence_length"]
    num_steps = 100 * round(NUM_PASSES * num_tokens / batch_tokens / 100)
    num_steps = min(network["max_steps"], max(network["min_steps"], num_steps))
    valid_fraction = 0.2 if num_documents < _FEW_DOCUMENTS else 0.05
    lines: list[str] = []
    for source in sources:
        lines += (_comment(line, "    ") for line in _describe(source))
        lines.append(f"    {toml_value(source.source.model_dump(exclude_defaults=True))},")
    is_korean = languages["ko"] * 2 >= languages.total()
    has_headlines = is_korean and Path(find_bundled(_HEADLINES)).is_file()
    evaluation = Template(_TABLES["evaluation_of_headlines" if has_headlines else "evaluation"])
    why = network["why"]
    amount = (
        f"Here are {_about(num_documents)} documents and {_about(num_tokens)} tokens, of some "
        f"{BYTES_A_TOKEN} bytes of text each. {why[0].upper()}{why[1:]}."
    )
    return Template(_TABLES["config"]).substitute(
        {**network, "export": network.get("export", "")},
        min_steps=f"{network['min_steps']:,}",
        max_steps=f"{network['max_steps']:,}",
        amount=_comment(amount),
        target=shlex.quote(str(target)),
        name=name,
        sources="".join(f"{line}\n" for line in lines),
        pretokenizer="kiwi" if "ko" in languages else "whitespace",
        valid_fraction=0.01 if num_documents > 20_000 else valid_fraction,
        num_passes=NUM_PASSES,
        num_steps=num_steps,
        every=max(50, num_steps // 20),
        evaluation=evaluation.substitute(
            suite="klue" if is_korean else "glue" if "en" in languages else "xquad"
        ),
    )


def _comment(text: str, indent: str = "") -> str:
    width = 98 - len(indent)
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), f"{indent}# ")


def _about(number: float) -> str:
    """An estimate, by its first two digits."""
    return f"about {round(round(number), 2 - len(str(round(number)))):,}"


def _size(num_bytes: float) -> str:
    return f"{num_bytes / 1e6:,.1f} MB" if num_bytes >= 1e5 else f"{num_bytes / 1e3:,.1f} KB"


def _describe(estimate: FoundSource) -> list[str]:
    """A source in words: amounts, then the choices that a reader may know better."""
    source, amount = estimate.source, estimate.amount
    files = "1 file" if estimate.num_files == 1 else f"{estimate.num_files:,} files"
    lines = [
        f"{source.path}: {files}, {_size(estimate.num_bytes)}, "
        f"{_about(amount.num_documents)} documents with {_size(amount.num_bytes)} of text"
    ]
    others = ", ".join(field for field in estimate.fields if field != source.text_field)
    if others or source.text_field != "text":
        lines.append(f"text in {source.text_field!r}; other fields: {others or 'none'}")
    labels = [field for field in estimate.fields if field.lower() in _LABEL_FIELDS]
    is_plain = estimate.num_files == 1 and not is_member(source.path)
    if labels and is_plain and Path(source.path).suffix.lower() in _OWN_TASK_SUFFIXES:
        lines.append(
            f"a classifier learns {labels[0]!r} without this config: electrify finetune "
            f"{SHIPPED} --own-task {shlex.quote(source.path)} --output out/classifier"
        )
    if source.columns:
        lines.append(f"its first row is data; here its columns are {', '.join(source.columns)}")
    if source.kind == "text":
        lines.append(f'a document is a {source.document} ("file", "line" or "block")')
    known = sum(estimate.language_bytes.values())
    shares = Counter(estimate.language_bytes).most_common(5)
    shown = ", ".join(f"{code} {size / known:.0%}" for code, size in shares if 200 * size > known)
    lines.append(f"languages: {shown or 'not recognised; write the ISO 639 code of yours'}")
    return lines
