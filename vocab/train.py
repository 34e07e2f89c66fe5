"""The vocabulary stage: count words, learn pieces, write a tokenizer and a report on it."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from electrify.config.run import RunConfig
from electrify.config.vocab import VocabConfig
from electrify.stage.folder import write_json
from electrify.stage.plan import output_dir, vocab_stage
from electrify.stage.run import run_stage
from electrify.system.memory import keep_little_memory
from electrify.system.outcome import UserError
from electrify.system.progress import log
from electrify.system.unknown import Coverage, warn_of_unknown
from pipeline.documents import document_paths, list_row_groups, read_group
from vocab.counts.table import read_batches
from vocab.counts.words import language_totals, weighted
from vocab.pretokenize import Cuts, WordRules, mask_words_of
from vocab.report import (
    SampleText,
    compare,
    find_span_files,
    read_spans,
    report_page,
    sample_report,
    vocab_report,
)
from vocab.shards.mask_units import write_mask_units
from vocab.tokenizer import build_tokenizer, check_extendable, load_reference, save_tokenizer
from vocab.wordpiece.learn import Training, Vocabulary, hangul_syllables, train_wordpiece
from vocab.wordpiece.merges import SPECIAL_TOKENS

NUM_SAMPLES = 12  # segmented sentences of each language in the report
SAMPLE_CHARACTERS = 200_000  # measured of each language and source
_SAMPLE_ROW_GROUPS = 64  # read for samples, spread over all
_SENTENCE_CHARACTERS = 120
_SENTENCE_END = re.compile(r"(?<=[.!?。])\s|\n")


def train_vocab(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    """Write the run's `vocab/` from its `clean/`."""

    def work(folder: Path) -> Mapping[str, Any]:
        return write_vocab(config, beam_options, folder)

    run_stage(vocab_stage(config, span_files_of(config.vocab)), work, overwrite)


def check_vocab_inputs(config: RunConfig) -> None:
    """`ValueError` if what `[vocab]` names cannot be read, or does not fit its size."""
    training_of(config.vocab, mask_words_of(config))
    span_files_of(config.vocab)
    for path in config.vocab.references:
        load_reference(Path(path))


def write_vocab(config: RunConfig, beam_options: Sequence[str], folder: Path) -> dict[str, Any]:
    """Train on all documents of the run and write the tokenizer into `folder`; counts of it."""
    options = config.vocab
    span_files = span_files_of(options)
    references = {path: load_reference(Path(path)) for path in options.references}
    documents = document_paths(output_dir(config) / "clean")
    learnt = learn_vocabulary(config, documents, beam_options, folder)
    learnt.tokenizer.encode_special_tokens = True  # "[MASK]" in a document is text, as in encoding
    samples = list(sample_documents(documents))
    batches = partial(read_batches, learnt.word_counts)
    sentences = sample_sentences(samples, learnt.num_words)
    report = vocab_report(learnt.tokenizer, batches, sentences)
    units = write_mask_units(learnt.vocabulary.pieces, batches, folder)
    learnt.word_counts.unlink()  # large, and nothing later needs it
    report["sources"] = sample_report(learnt.tokenizer, samples)
    spans = {path.name: read_spans(path) for path in span_files}
    if spans or references:
        tokenizers = {config.name: learnt.tokenizer} | references
        report["compared"] = compare(tokenizers, samples, spans)
    report["training"] = counts = _counts(learnt) | ({"morpheme_starts": units} if units else {})
    write_json(folder / "report.json", report)
    report_page(report, f"{config.name}: vocabulary").write(folder / "report.html")
    _log_report(report)
    _warn_of_unknown(report["sources"], options, learnt.tokenizer)
    return counts


@dataclass(frozen=True)
class Learnt:
    """A vocabulary, and the counts it was learnt from."""

    vocabulary: Vocabulary
    tokenizer: Any
    word_counts: Path
    num_words: Mapping[str, int]  # by language
    num_distinct: Mapping[str, int]


def learn_vocabulary(
    config: RunConfig, documents: Sequence[Path], beam_options: Sequence[str], folder: Path
) -> Learnt:
    """Count the words of documents files, learn pieces, and write both into `folder`."""
    from vocab.counts.beam import write_word_counts  # Beam: a second, and only needed here

    keep_little_memory()
    options = config.vocab
    training = training_of(options, mask_words_of(config))
    counts_path = folder / "word_counts.parquet"
    rules, runner = word_rules(options), config.beam.runner
    plan, work_dir = vocab_stage(config).plan, config.beam.work_dir
    write_word_counts(documents, counts_path, rules, plan, runner, beam_options, work_dir)
    batches = partial(read_batches, counts_path)
    totals = language_totals(batches)
    log(f"{sum(totals[0].values()):,} words, {sum(totals[1].values()):,} distinct")
    weighted_batches = weighted(batches, options.temperature, totals[0])
    vocabulary = train_wordpiece(weighted_batches, training)
    special = options.additional_special_tokens
    tokenizer = build_tokenizer(vocabulary.pieces, options.lowercase, options.split_digits, special)
    save_tokenizer(tokenizer, folder, options.lowercase, special)
    return Learnt(vocabulary, tokenizer, counts_path, *totals)


def word_rules(options: VocabConfig) -> WordRules:

    def cuts_of(pretokenizer: str) -> Cuts:
        return options.morpheme_cuts if pretokenizer == "kiwi" else "none"

    return WordRules(
        options.lowercase,
        options.split_digits,
        cuts_of(options.pretokenizer),
        tuple(sorted((name, cuts_of(of)) for name, of in options.pretokenizers.items())),
    )


def span_files_of(options: VocabConfig) -> list[Path]:
    """The files of `vocab.span_data_dir`; `ValueError` if there are none in it."""
    return find_span_files(Path(options.span_data_dir)) if options.span_data_dir else []


def training_of(options: VocabConfig, mask_words: Sequence[str] = ()) -> Training:
    """How the config wants pieces learnt.

    `ValueError` if `vocab.extend` cannot be read, or if `vocab.size` is too small for it and for
    the tokens asked for. A vocabulary that is kept as it is gets no pieces for `mask_words`.
    """
    first = list(SPECIAL_TOKENS)
    if options.extend:
        first = check_extendable(Path(options.extend), options.lowercase)
    if len(first) == options.size:
        mask_words = ()
    num_given = len(first)
    unused = [f"[unused{number}]" for number in range(options.num_unused)]
    for token in (*options.additional_special_tokens, *mask_words, *unused):
        if token not in first:
            first.append(token)
    if len(first) > options.size:
        kept = ""
        if options.extend and options.size != num_given:
            kept = f"; vocab.size = {num_given} keeps vocab.extend as it is"
        raise UserError(
            f"vocab.size = {options.size} is too small for {num_given} "
            f"{'pieces of vocab.extend' if options.extend else 'special tokens'} and "
            f"{len(first) - num_given} tokens beside them: set it to {len(first)} or more{kept}"
        )
    names = {field.name for field in fields(Training)}
    return Training(
        **options.model_dump(include=names),
        first_pieces=tuple(first),
        extra_characters=hangul_syllables(options.hangul),
        extends=options.extend is not None,
    )


def sample_documents(documents: Sequence[Path]) -> Iterator[SampleText]:
    """The first documents of each language and source, up to SAMPLE_CHARACTERS of each."""
    groups = list_row_groups(documents)
    step = max(1, len(groups) // _SAMPLE_ROW_GROUPS)
    taken: dict[tuple[str, str], int] = {}
    for group in groups[::step]:
        for row in read_group(group, ["language", "source", "text"]):
            language, source, text = row["language"], row["source"], row["text"]
            left = SAMPLE_CHARACTERS - taken.get((language, source), 0)
            if left > 0:
                taken[language, source] = SAMPLE_CHARACTERS - left + len(text)
                yield SampleText(language, source, text[:left])


def sample_sentences(
    samples: Sequence[SampleText], languages: Collection[str]
) -> list[tuple[str, str]]:
    """The first sentences of the first documents of each language: (language, sentence)."""
    found: dict[str, list[str]] = {language: [] for language in sorted(languages)}
    for sample in samples:
        listed = found.setdefault(sample.language, [])
        if len(listed) < NUM_SAMPLES:
            sentence = _SENTENCE_END.split(sample.text.strip(), maxsplit=1)[0]
            listed.append(sentence[:_SENTENCE_CHARACTERS])
    return [(language, text) for language, listed in found.items() for text in listed]


def _log_report(report: Mapping[str, Any]) -> None:
    for language, found in report["languages"].items():
        fertility, unknown = found["pieces_per_word"], 100 * found["unk_word_fraction"]
        log(f"{language}: {fertility:.2f} pieces a word, {unknown:.3f} % of words have [UNK]")
    for row in report.get("compared", ()):
        if "span_ceiling" in row:
            ceiling, fertility = 100 * row["span_ceiling"], row["pieces_per_word"]
            log(f"{row['tokenizer']}, {row['data']}: {ceiling:.1f} % of spans, {fertility:.2f}")


def _warn_of_unknown(
    sources: Sequence[Mapping[str, Any]], options: VocabConfig, tokenizer: Any
) -> None:
    given = f"vocab.extend = {options.extend!r}, " if options.extend else ""
    advice = f"Set vocab.size above {options.size:,}: part of the new pieces are characters"
    if options.extend:
        advice += ". Or extend a vocabulary of these languages"
    for of in sources:
        found = Coverage(of["num_pieces"], of["num_unknown_pieces"])
        what = f"{given}{of['language']} text of {of['source']}"
        warn_of_unknown(found, what, tokenizer, advice)


def _counts(learnt: Learnt) -> dict[str, Any]:
    figures = asdict(learnt.vocabulary)
    return {
        "num_pieces": len(figures.pop("pieces")),
        **figures,
        "num_words": dict(learnt.num_words),
        "num_distinct_words": dict(learnt.num_distinct),
    }
