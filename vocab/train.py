"""The vocabulary stage: count words, learn pieces, write a tokenizer and a report on it."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from electrify.config.run import RunConfig
from electrify.config.vocab import VocabConfig
from electrify.stage.folder import write_json
from electrify.stage.plan import output_dir, vocab_stage
from electrify.stage.run import run_stage
from electrify.system.machine import keep_little_memory
from electrify.system.outcome import UserError
from electrify.system.progress import log
from electrify.system.unknown import Coverage, warn_of_unknown
from pipeline.documents import (
    RowGroup,
    document_paths,
    list_row_groups,
    read_columns,
    read_group,
)
from pipeline.report.counts import OTHER
from pipeline.rules.characters import SENTENCE_BREAK
from vocab.learn import train_wordpiece
from vocab.pretokenize import mask_words_of
from vocab.report import SampleText, report_page, sample_sums, vocab_report
from vocab.segment import SPECIAL_TOKENS
from vocab.shards.sequences import sampling_fractions
from vocab.tokenizer import build_tokenizer, check_extendable, save_tokenizer
from vocab.words import language_totals, read_batches, weighted

NUM_SAMPLES = 12  # segmented sentences of each language in the report
SAMPLE_CHARACTERS = 200_000  # measured of each language and source
MAX_SOURCES = 50  # of each language; all others are one
_SAMPLE_ROW_GROUPS = 64  # read for samples, spread over all
_EVENLY_SAMPLED_BYTES = 1_000_000  # about, of documents by which `enlarged` decides
_SENTENCE_CHARACTERS = 120


def train_vocab(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    """Write the run's `vocab/` from its `clean/`."""
    stage = vocab_stage(config)

    def work(folder: Path) -> Mapping[str, Any]:
        from vocab.word_counts import write_word_counts  # Beam: a second, and only needed here

        keep_little_memory()
        documents = document_paths(output_dir(config) / "clean")
        options = enlarged(config.vocab, documents)
        first_pieces = first_pieces_of(options, mask_words_of(config))
        counts_path = folder / "word_counts.parquet"
        counted = options
        if options.extend and options.size in ("auto", len(first_pieces)):
            # nothing is learnt from the words of a vocabulary that is kept: they need no morphemes
            counted = options.model_copy(update={"pretokenizer": "whitespace"})
        write_word_counts(documents, counts_path, counted, stage.plan, config.beam, beam_options)
        batches = partial(read_batches, counts_path)
        num_words, num_distinct = language_totals(batches)
        log(f"{sum(num_words.values()):,} words, {sum(num_distinct.values()):,} distinct")

        fractions = sampling_fractions(num_words, options.temperature)
        pieces = train_wordpiece(
            weighted(batches, fractions, num_words),
            options.sized(sum(num_words.values()), len(first_pieces)),
            first_pieces,
            may_be_fewer=config.vocab.size == "auto",
        )
        special = options.additional_special_tokens
        tokenizer = build_tokenizer(pieces, options.lowercase, special)
        save_tokenizer(tokenizer, folder, options.lowercase, special)

        tokenizer.encode_special_tokens = True  # "[MASK]" in a document is text, as in encoding
        samples = list(sample_documents(documents))
        before = build_tokenizer(first_pieces, options.lowercase) if options.extend else None
        report = vocab_report(tokenizer, samples, sample_sentences(samples, num_words), before)
        counts_path.unlink()  # large, and nothing later needs it
        write_json(folder / "report.json", report)
        report_page(report, f"{config.name}: vocabulary").write(folder / "report.html")
        _log_report(report)
        _warn_of_unknown(report["sources"], options)
        counts = {"num_words": num_words, "num_distinct_words": num_distinct}
        return {"num_pieces": len(pieces), **counts}

    run_stage(stage, work, overwrite)


def first_pieces_of(options: VocabConfig, mask_words: Sequence[str] = ()) -> tuple[str, ...]:
    """The pieces with the first ids: special tokens or `vocab.extend`, and tokens asked for.

    `ValueError` if `vocab.extend` cannot be read, or if `vocab.size` is too small for them. A
    vocabulary that is kept as it is gets no pieces for `mask_words`.
    """
    first = list(SPECIAL_TOKENS)
    if options.extend:
        first = check_extendable(Path(options.extend), options.lowercase)
    num_given = len(first)
    if num_given == options.size or (options.extend and options.size == "auto"):
        mask_words = ()
    first = list(dict.fromkeys([*first, *options.additional_special_tokens, *mask_words]))
    if options.size != "auto" and len(first) > options.size:
        kept = ""
        if options.extend and options.size != num_given:
            kept = f"; vocab.size = {num_given} keeps vocab.extend as it is"
        raise UserError(
            f"vocab.size = {options.size} is too small for {num_given} "
            f"{'pieces of vocab.extend' if options.extend else 'special tokens'} and "
            f"{len(first) - num_given} tokens beside them: set it to {len(first)} or more{kept}"
        )
    return tuple(first)


def enlarged(options: VocabConfig, documents: Sequence[Path]) -> VocabConfig:
    """The options; with a third more pieces where `size` is auto and too much of the documents is
    [UNK] in the vocabulary that they extend."""
    if options.extend is None or options.size != "auto":
        return options
    given = first_pieces_of(options)
    tokenizer = build_tokenizer(given, options.lowercase, options.additional_special_tokens)
    counts = sum(sample_sums(tokenizer, _evenly_sampled(documents)).values(), Counter())
    coverage = Coverage(counts["num_pieces"], counts["num_unknown_pieces"])
    if not coverage.is_unfit:
        return options
    more = len(given) // 3
    log(
        f"{coverage} in vocab.extend = {options.extend!r}: up to {more:,} pieces are added; "
        f"vocab.size = {len(given)} would add none"
    )
    return options.model_copy(update={"size": len(given) + more})


def _evenly_sampled(documents: Sequence[Path]) -> Iterator[SampleText]:
    """Documents at even steps over the text, so that each source has its share."""
    groups = _spread(list_row_groups(documents))
    rows = (row for group in groups for row in read_group(group, SampleText._fields))
    step = max(1, sum(group.num_bytes for group in groups) // _EVENLY_SAMPLED_BYTES)
    for row in islice(rows, None, None, step):
        yield SampleText(**row)


def _spread(groups: Sequence[RowGroup]) -> list[RowGroup]:
    return [*groups[:: max(1, len(groups) // _SAMPLE_ROW_GROUPS)]]


def sample_documents(documents: Sequence[Path]) -> Iterator[SampleText]:
    """The first documents of each language and source, up to SAMPLE_CHARACTERS of each."""
    taken: dict[str, dict[str, int]] = {}
    for group in _sampled_groups(list_row_groups(documents)):
        for row in read_group(group, ["language", "source", "text"]):
            language, source, text = row["language"], row["source"], row["text"]
            sources = taken.setdefault(language, {})
            if source not in sources and len(sources) >= MAX_SOURCES:
                source = OTHER
            left = SAMPLE_CHARACTERS - sources.get(source, 0)
            if left > 0:
                sources[source] = SAMPLE_CHARACTERS - left + len(text)
                yield SampleText(language, source, text[:left])


def _sampled_groups(groups: Sequence[RowGroup]) -> list[RowGroup]:
    """Row groups spread over all, and the first of each language and source that they lack."""
    spread = _spread(groups)
    if len(spread) == len(groups):
        return [*groups]
    found: dict[str, dict[str, RowGroup]] = {}
    for group in (*spread, *groups):
        for batch in read_columns(group, ["language", "source"]):
            for row in pa.table(batch).group_by(batch.schema.names).aggregate([]).to_pylist():
                sources = found.setdefault(row["language"], {})
                if len(sources) < MAX_SOURCES:
                    sources.setdefault(row["source"], group)
    chosen = {*spread, *(group for sources in found.values() for group in sources.values())}
    return [group for group in groups if group in chosen]


def sample_sentences(
    samples: Sequence[SampleText], languages: Collection[str]
) -> list[tuple[str, str]]:
    """The first sentences of the first documents of each language: (language, sentence)."""
    sentences: dict[str, list[str]] = {language: [] for language in sorted(languages)}
    for sample in samples:
        listed = sentences.setdefault(sample.language, [])
        if len(listed) < NUM_SAMPLES:
            sentence = SENTENCE_BREAK.split(sample.text.strip(), maxsplit=1)[0]
            listed.append(sentence[:_SENTENCE_CHARACTERS])
    return [(language, text) for language, listed in sentences.items() for text in listed]


def _log_report(report: Mapping[str, Any]) -> None:
    for language, figures in report["languages"].items():
        fertility, unknown = figures["pieces_per_word"], 100 * figures["unk_piece_fraction"]
        before = figures.get("pieces_per_word_before")
        was = "" if before is None else f" ({before:.2f} before it was extended)"
        log(f"{language}: {fertility:.2f} pieces a word{was}, {unknown:.3f} % of them [UNK]")


def _warn_of_unknown(sources: Sequence[Mapping[str, Any]], options: VocabConfig) -> None:
    given = f"vocab.extend = {options.extend!r}, " if options.extend else ""
    advice = "Set a larger vocab.size or vocab.limit_alphabet"
    if options.extend:
        advice += ". Or extend a vocabulary of these languages"
    for language, rows in groupby(sources, key=itemgetter("language")):
        coverages = {
            row["source"]: Coverage(row["num_pieces"], row["num_unknown_pieces"]) for row in rows
        }
        unfit = [source for source, coverage in coverages.items() if coverage.is_unfit]
        if unfit:
            first = max(unfit, key=lambda source: coverages[source].num_unknown)
            others = f" (and {len(unfit) - 1} more sources)" if len(unfit) > 1 else ""
            what = f"{given}{language} text of {first}{others}"
            warn_of_unknown(coverages[first], what, advice)
