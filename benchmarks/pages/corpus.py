"""The text a run was trained on: the corpus, what was removed from it, and the vocabulary."""

import json
import math
from collections import Counter
from collections.abc import Sequence

from benchmarks.pages.sections import missing, words
from benchmarks.pages.twin_page import TwinPage
from benchmarks.results.run_folder import Json, RunFolder

MAX_SOURCES, MAX_BARS = 30, 12
NUM_SEGMENTATIONS = 6
# of clean/report.json: shown in clean/report.html, where they have plots and headings of their own
_IN_CLEAN_REPORT = (
    "files",
    "malformed_examples",
    "samples",
    "lengths",
    "languages",
    "altered_by_source",
    "clusters",
    "benchmarks",
    "contamination",
)
_KEPT = ("documents_in", "documents_kept", "characters_in", "characters_kept")
_KEPT_HEADERS = ("documents in", "kept", "characters in", "kept", "characters kept, %")
# column of vocab/report.json's languages -> how it is said
LANGUAGE_COLUMNS = {
    "num_words": "words",
    "num_distinct_words": "distinct words",
    "pieces_per_word": "pieces per word",
    "characters_per_piece": "characters per piece",
    "unk_word_fraction": "words with [UNK]",
    "measured_fraction": "share of words measured",
}


def add_corpus(document: TwinPage, run: RunFolder) -> None:
    """Documents and characters in and kept, by language and by source, and why texts went."""
    if missing(document, run, "clean", "The corpus"):
        return
    rest = dict(run.corpus)
    sources, removed = rest.pop("sources", []), rest.pop("removed", [])
    malformed, altered = rest.pop("malformed", []), rest.pop("altered", {})
    for name in _IN_CLEAN_REPORT:
        rest.pop(name, None)
    _add_facts(document, rest, "The corpus")
    if sources:
        _add_in_and_kept(document, sources)
    _add_reasons(document, "Removed documents", removed)
    _add_reasons(document, "Rows that could not be read", malformed)
    if altered:
        rows = sorted(altered.items(), key=lambda rule: -rule[1])
        document.table(["rule", "documents changed"], rows, "Documents that a rule changed")


def _add_in_and_kept(document: TwinPage, sources: Sequence[Json]) -> None:
    languages = [
        {"language": name} | _sums([s for s in sources if s["language"] == name])
        for name in dict.fromkeys(source["language"] for source in sources)
    ]
    document.table(["language", *_KEPT_HEADERS], [(x["language"], *_kept(x)) for x in languages])
    largest = sorted(sources, key=lambda source: -source.get("characters_in", 0))
    shown = largest[:MAX_SOURCES]
    num_hidden = len(largest) - len(shown)
    document.table(
        ["language", "source", *_KEPT_HEADERS],
        [(source["language"], source["source"], *_kept(source)) for source in shown],
        f"Sources, without the {num_hidden:,} smallest" if num_hidden else "Sources",
    )
    document.bar_plot(
        "Characters by source",
        [f"{source['language']} {source['source']}" for source in shown[:MAX_BARS]],
        {
            "in": [source.get("characters_in", math.nan) for source in shown[:MAX_BARS]],
            "kept": [source.get("characters_kept", math.nan) for source in shown[:MAX_BARS]],
        },
        "characters",
    )


def _sums(sources: Sequence[Json]) -> dict[str, int]:
    return {name: sum(source.get(name, 0) for source in sources) for name in _KEPT}


def _kept(counts: Json) -> tuple[object, ...]:
    """Cells under `_KEPT_HEADERS`."""
    came, kept = counts.get("characters_in"), counts.get("characters_kept")
    share = f"{100 * kept / came:.1f} %" if came and kept is not None else None
    return (*map(counts.get, _KEPT), share)


def _add_reasons(document: TwinPage, title: str, counts: Sequence[Json]) -> None:
    """Counts by reason, language and source: summed over sources, and plotted."""
    sums: Counter[tuple[str, str]] = Counter()
    for count in counts:
        sums[count["reason"], count["language"]] += count["documents"]
    if not sums:
        document.paragraph(f"{title}: none.")
        return
    rows = [(words(reason), language, n) for (reason, language), n in sums.most_common()]
    document.table(["reason", "language", "documents"], rows, title)
    reasons = Counter[str]()
    for (reason, _), n in sums.items():
        reasons[words(reason)] += n
    if len(reasons) < 2:
        return
    labels, values = zip(*reasons.most_common(MAX_BARS), strict=True)
    document.bar_plot(f"{title}, by reason", labels, {"documents": values}, "documents")


def add_vocabulary(document: TwinPage, run: RunFolder) -> None:
    """Size, fertility and unknown words by language, what the pieces are, some segmentations."""
    if missing(document, run, "vocab", "The vocabulary"):
        return
    rest = dict(run.vocabulary)
    languages, scripts = rest.pop("languages", {}), rest.pop("scripts", {})
    samples = rest.pop("samples", [])
    rest.pop("longest_pieces", None)  # in vocab/report.html
    if "vocab_size" in rest:
        document.paragraph(f"{rest.pop('vocab_size'):,} WordPiece pieces, special tokens included.")
    if languages:
        document.table(
            ["language", *LANGUAGE_COLUMNS.values()],
            [(name, *map(found.get, LANGUAGE_COLUMNS)) for name, found in languages.items()],
            "Fewer pieces per word (fertility) leave more text in a sequence; a word with [UNK] is "
            "lost to the model. Each word weighs as often as it occurs.",
        )
    if scripts:
        document.table(["script of the first character", "pieces"], list(scripts.items()))
    _add_facts(document, rest, "Vocabulary")
    if samples:
        document.text_samples(
            "Segmented sentences (## goes on with a word)",
            [(s["language"], " ".join(s["pieces"])) for s in _spread(samples)],
        )


def _spread(samples: list[Json]) -> list[Json]:
    """A few samples, every language among them."""
    languages = dict.fromkeys(sample["language"] for sample in samples)
    each = max(1, NUM_SEGMENTATIONS // max(1, len(languages)))
    return [s for name in languages for s in [x for x in samples if x["language"] == name][:each]]


def _add_facts(document: TwinPage, facts: Json, caption: str) -> None:
    """Any JSON object for a reader: plain values in one table, objects of values in their own."""
    plain = [(words(key), value) for key, value in facts.items() if _is_plain(value)]
    if plain:
        document.table(["", "value"], plain, caption)
    for key, value in facts.items():
        title = f"{caption}: {words(key)}"
        if isinstance(value, dict) and value:
            if all(_is_plain(entry) for entry in value.values()):
                document.table(["", words(key)], [(words(k), v) for k, v in value.items()], title)
            elif all(isinstance(entry, dict) for entry in value.values()):
                columns = list(dict.fromkeys(c for entry in value.values() for c in entry))
                rows = [(k, *(_cell(e.get(c)) for c in columns)) for k, e in value.items()]
                document.table(["", *map(words, columns)], rows, title)
            else:
                _add_facts(document, value, title)
        elif isinstance(value, list) and value and all(isinstance(e, dict) for e in value):
            columns = list(dict.fromkeys(c for entry in value for c in entry))
            rows = [tuple(_cell(entry.get(c)) for c in columns) for entry in value]
            document.table(list(map(words, columns)), rows, title)
        elif isinstance(value, list) and value:
            document.paragraph(f"{title}: {', '.join(map(str, value))}")


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _cell(value: object) -> object:
    return value if _is_plain(value) else json.dumps(value, ensure_ascii=False)
