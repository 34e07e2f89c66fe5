"""The vocabulary stage: count words, learn pieces, write a tokenizer and a report on it."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electrify.artifacts import run_stage, write_json
from electrify.config import RunConfig
from electrify.progress import log
from electrify.stages import output_dir, vocab_stage
from vocab.quality import report_page, vocab_report
from vocab.row_groups import list_row_groups, read_texts
from vocab.tokenizer import build_tokenizer, save_tokenizer
from vocab.word_counts import read_word_counts, write_word_counts
from vocab.wordpiece import Vocabulary, train_wordpiece

NUM_SAMPLES = 12  # segmented sentences of each language in the report
_SAMPLE_CHARACTERS = 120
_SENTENCE_END = re.compile(r"(?<=[.!?。])\s|\n")


def train_vocab(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    """Write the run's `vocab/` from its `clean/`."""

    def work(folder: Path) -> Mapping[str, Any]:
        return write_vocab(config, beam_options, folder)

    run_stage(vocab_stage(config), work, overwrite)


def write_vocab(config: RunConfig, beam_options: Sequence[str], folder: Path) -> dict[str, Any]:
    """Train on all documents of the run and write the tokenizer into `folder`; counts of it."""
    documents = sorted((output_dir(config) / "clean").glob("documents-*.parquet"))
    counts_path = folder / "word_counts.parquet"
    runner, lowercase = config.clean.runner, config.vocab.lowercase
    write_word_counts(documents, counts_path, lowercase, runner, beam_options)
    words = read_word_counts(counts_path)
    counts_path.unlink()  # large, and nothing later needs it
    vocabulary = learn(config, words)
    tokenizer = build_tokenizer(vocabulary.pieces, lowercase)
    save_tokenizer(tokenizer, folder, lowercase)
    report = vocab_report(tokenizer, words, sample_sentences(documents, words))
    report["training"] = counts = _counts(vocabulary, words)
    write_json(folder / "report.json", report)
    report_page(report, f"{config.name}: vocabulary").write(folder / "report.html")
    for language, found in report["languages"].items():
        fertility, unknown = found["pieces_per_word"], 100 * found["unk_fraction"]
        log(f"{language}: {fertility:.2f} pieces a word, {unknown:.3f} % of words are [UNK]")
    return counts


def learn(config: RunConfig, words: Mapping[str, Mapping[str, int]]) -> Vocabulary:
    """A vocabulary from the counts of words of each language, summed."""
    total: Counter[str] = Counter()
    for counts in words.values():
        total.update(counts)
    log(f"{sum(total.values()):,} words, {len(total):,} distinct")
    options = config.vocab
    return train_wordpiece(
        total,
        options.size,
        use_morphemes=options.pretokenizer == "kiwi",
        min_frequency=options.min_frequency,
        limit_alphabet=options.limit_alphabet,
        lowercase=options.lowercase,
    )


def sample_sentences(
    documents: Sequence[Path], languages: Collection[str]
) -> list[tuple[str, str]]:
    """The first sentence of the first documents of each language: (language, sentence)."""
    samples: dict[str, list[str]] = {language: [] for language in languages}
    for language, text in _documents(documents):
        if len(samples[language]) < NUM_SAMPLES:
            sentence = _SENTENCE_END.split(text.strip(), maxsplit=1)[0]
            samples[language].append(sentence[:_SAMPLE_CHARACTERS])
            if all(len(listed) == NUM_SAMPLES for listed in samples.values()):
                break  # usually in the first row group
    return [(language, text) for language in sorted(samples) for text in samples[language]]


def _documents(documents: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for group in list_row_groups(documents)[0]:
        for texts, languages in read_texts(group):
            yield from zip(languages, texts, strict=True)


def _counts(vocabulary: Vocabulary, words: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    return {
        "num_pieces": len(vocabulary.pieces),
        "num_characters": vocabulary.num_characters,
        "num_characters_seen": vocabulary.num_characters_seen,
        "num_training_words": vocabulary.num_words,
        "min_word_count": vocabulary.min_word_count,
        "num_words": {language: sum(counts.values()) for language, counts in words.items()},
        "num_distinct_words": {language: len(counts) for language, counts in words.items()},
    }
