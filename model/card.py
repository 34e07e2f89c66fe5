"""Model cards of the exported folders, written from the run's manifests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electrify.artifacts import read_manifest
from electrify.config import RunConfig
from electrify.stages import output_dir

_USE = {
    "discriminator": (
        "The discriminator tells for every token whether it was replaced. It is the encoder to "
        "fine-tune: `AutoModel.from_pretrained(...)`; `ElectraForPreTraining` keeps the "
        "detection head."
    ),
    "generator": (
        "The generator is the small masked language model that made the replacements: "
        "`ElectraForMaskedLM.from_pretrained(...)`. For fine-tuning take the discriminator."
    ),
}


def write_cards(config: RunConfig, folder: Path, differences: Mapping[str, float]) -> None:
    """`README.md` in each of `folder/{discriminator,generator}`."""
    run = output_dir(config)
    corpus = json.loads((run / "clean" / "report.json").read_text(encoding="utf-8"))
    summary = read_manifest(run / "pretrain")["counts"]
    valid = _last_valid(run / "pretrain" / "metrics.jsonl")
    for kind, use in _USE.items():
        text = _card(config, kind, use, corpus, summary, valid, differences[kind])
        (folder / kind / "README.md").write_text(text, encoding="utf-8")


def _card(
    config: RunConfig,
    kind: str,
    use: str,
    corpus: Mapping[str, Any],
    summary: Mapping[str, Any],
    valid: Mapping[str, Any],
    difference: float,
) -> str:
    languages = sorted({source.language for source in config.clean.sources})
    licences = sorted({s.licence for s in config.clean.sources if s.licence})
    header = ["---", "library_name: transformers", "tags: [electra]", "language:"]
    header += [f"- {language}" for language in languages] + ["---"]
    facts = {
        "Objective": "ELECTRA, replaced token detection (Clark et al. 2020)",
        "Parameters": f"{summary['parameters'][kind]:,}",
        "Vocabulary": f"{summary['vocab_size']:,} WordPiece pieces, {_cuts(config)}",
        "Steps x batch x length": (
            f"{summary['num_steps']:,} x {config.pretrain.batch_size} x "
            f"{config.encode.sequence_length} = {summary['tokens']:,} tokens"
        ),
        "Training FLOPs": (
            f"{summary['flops_paper']:.2e} (the paper's convention), "
            f"{summary['flops_6nd']:.2e} (6ND)"
        ),
        "Hardware": f"{summary['device']}, {summary['seconds'] / 3600:.2f} hours",
        "Validation": ", ".join(f"{k} {v}" for k, v in valid.items() if k not in _PLACE),
        "Largest logit difference to the trained model": f"{difference:.1e}",
        "Source licences named in the config": ", ".join(licences) or "see each document",
    }
    lines = [*header, "", f"# {config.name} {kind}", "", use, "", "| | |", "|---|---|"]
    lines += [f"| {key} | {value} |" for key, value in facts.items()]
    lines += ["", "## Training text", "", *_corpus_table(corpus), ""]
    lines += ["Made by electrify; the run's manifests hold every option and checksum.", ""]
    return "\n".join(lines)


def _cuts(config: RunConfig) -> str:
    """What guided the training of the vocabulary; `morpheme_cuts` is an option of kiwi's only."""
    options, languages = config.vocab, {source.language for source in config.clean.sources}
    used = {
        language: options.pretokenizers.get(language, options.pretokenizer)
        for language in sorted(languages)
    }
    named = {
        language: f"{of} with {options.morpheme_cuts} morpheme cuts" if of == "kiwi" else of
        for language, of in used.items()
    }
    if len(set(named.values())) == 1:
        return next(iter(named.values()))
    return ", ".join(f"{language}: {how}" for language, how in named.items())


_PLACE = {"kind", "step", "tokens", "seconds"}


def _corpus_table(corpus: Mapping[str, Any]) -> list[str]:
    head = ["| language | source | documents read | documents kept |", "|---|---|---|---|"]
    rows = [
        f"| {row['language']} | {row['source']} | {row['documents_in']:,} | "
        f"{row['documents_kept']:,} |"
        for row in corpus["sources"]
    ]
    return head + rows


def _last_valid(path: Path) -> Mapping[str, Any]:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    last: Mapping[str, Any] = [r for r in records if r["kind"] == "valid"][-1]
    return last
