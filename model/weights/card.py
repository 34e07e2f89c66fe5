"""Model cards of the exported folders, written from the run's manifests and reports."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from electrify.config.pretrain import PretrainConfig
from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST, read_manifest, write_text
from electrify.stage.plan import METRICS, output_dir
from model.schedule import phases_of
from model.weights.names import Network, exported_networks, has_plain_generator

_ELECTRA = "ELECTRA, Clark et al. 2020, arXiv:2003.10555"
OBJECTIVES = {
    "electra": f"replaced token detection over all tokens ({_ELECTRA}, section 2)",
    "electra-15": (
        f"replaced token detection at the chosen positions only ({_ELECTRA}, section 3.4)"
    ),
    "replace-mlm": (
        "masked language modelling with samples of a generator in place of [MASK] "
        f"({_ELECTRA}, section 3.4)"
    ),
    "all-tokens-mlm": (
        f"prediction of every token, with a gate that copies the input ({_ELECTRA}, section 3.4)"
    ),
    "mlm": "masked language modelling (BERT, Devlin et al. 2019, arXiv:1810.04805)",
    "electra-adversarial": (
        "replaced token detection against a generator trained to deceive, by REINFORCE with a "
        f"learned baseline ({_ELECTRA}, appendix F)"
    ),
    "electra-two-stage": (
        "replaced token detection in two stages: the generator first, then the discriminator from "
        f"its weights ({_ELECTRA}, section 3.2)"
    ),
    "electric": (
        "noise-contrastive estimation of an energy for every token (Electric, Clark et al. 2020b, "
        "arXiv:2012.08561)"
    ),
}
_ENCODER = "It is the encoder to fine-tune: `AutoModel.from_pretrained(...)`."
USES = {
    "detector": (
        "The discriminator tells for every token whether it was replaced: "
        "`ElectraForPreTraining` keeps the detection head, whose logit is positive where it "
        f"was. {_ENCODER}"
    ),
    "energy": (
        "The main network gives every token an energy, the higher the less it fits: "
        "`ElectraForPreTraining` keeps the head. Its sigmoid is no probability; the log odds of "
        f"noise are the energy + log q(token) + log(p / (1 - p)). {_ENCODER}"
    ),
    "gate": (
        "The main network predicts every token; here it is with its copy gate as detection head: "
        "the sigmoid of the logit of `ElectraForPreTraining` is the probability that the token is "
        f"not copied. Its prediction over the vocabulary is in `language_model/`. {_ENCODER}"
    ),
    "predictor": (
        "The main network predicts tokens: `ElectraForMaskedLM` keeps the language head. "
        f"{_ENCODER}"
    ),
    "language_model": (
        "The main network with its prediction over the vocabulary: "
        "`ElectraForMaskedLM.from_pretrained(...)`. In training a copy gate stood before it, the "
        "detection head in `discriminator/`, the folder to fine-tune."
    ),
    "generator": (
        "The generator is the masked language model that made the replacements: "
        "`ElectraForMaskedLM.from_pretrained(...)`. For fine-tuning take the discriminator."
    ),
}


Json = Mapping[str, Any]
Sections = Mapping[str, Sequence[str]]
CARD = "README.md"

_PLACE = {"kind", "step", "tokens", "seconds"}


@dataclass(frozen=True)
class _Run:
    """What the cards of a run are written from."""

    corpus: Json  # clean/report.json
    summary: Json  # counts of pretraining
    valid: Json  # the last validation
    sections: Sections  # what was found out about it since, by title


def write_cards(
    config: RunConfig,
    folder: Path,
    differences: Mapping[str, float],
    sections: Sections = MappingProxyType({}),
) -> None:
    """`README.md` for each network in `folder`.

    `differences` are the largest logit differences to the trained model, by network; `sections` the
    lines of Markdown of further ones, by title.
    """
    run = output_dir(config)
    found = _Run(
        json.loads((run / "clean" / "report.json").read_text(encoding="utf-8")),
        read_manifest(run / "pretrain")["counts"],
        _last_valid(run / "pretrain" / METRICS),
        sections,
    )
    for network in exported_networks(config.pretrain):
        text = _card(config, network, found, differences[network.folder])
        write_text(folder / network.folder / CARD, text)


def add_sections(config: RunConfig, sections: Sections) -> None:
    """Write the cards of a finished export again, with what `evaluate/` says of this very export:
    lines of Markdown by title. The manifest says that cards are rewritten, and stays as it is."""
    folder = output_dir(config) / "export"
    manifest = read_manifest(folder)
    if not _was_scored(output_dir(config) / "evaluate", manifest["digest"]):
        sections = {}
    write_cards(config, folder, manifest["counts"]["max_logit_difference"], sections)


def trained_length(config: RunConfig) -> int:
    """The longest sequence that a run trains on."""
    phases = (phase.sequence_length for phase in config.pretrain.curriculum)
    return max(config.encode.sequence_length, *phases, 0)


def _card(config: RunConfig, network: Network, run: _Run, difference: float) -> str:
    languages = sorted({source.language for source in config.clean.sources})
    header = ["---", "library_name: transformers", "tags: [electra]", "language:"]
    header += [f"- {language}" for language in languages] + ["---"]
    facts = _facts(config, network, run) | {
        "Largest logit difference to the trained model": f"{difference:.1e}"
    }
    title = f"# {config.name} {network.folder.replace('_', ' ')}"
    lines = [*header, "", title, "", _use(config.pretrain, network), "", "| | |", "|---|---|"]
    lines += [f"| {key} | {value} |" for key, value in facts.items()]
    lines += ["", "## Limits", "", *_limits(config)]
    for heading, body in run.sections.items():
        lines += ["", f"## {heading}", "", *body]
    lines += ["", "## Training text", "", *_corpus_table(config, run.corpus)]
    lines += ["", "### Documents removed, by reason", "", *_removed_table(run.corpus), ""]
    lines += ["Made by electrify; the run's manifests hold every option and checksum.", ""]
    return "\n".join(lines)


def _use(config: PretrainConfig, network: Network) -> str:
    if network.folder != "discriminator":
        return USES[network.folder]
    if network.predicts_tokens:
        return USES["predictor"]
    return USES[{"electric": "energy", "all-tokens-mlm": "gate"}.get(config.objective, "detector")]


def _facts(config: RunConfig, network: Network, run: _Run) -> dict[str, str]:
    pretrain, summary = config.pretrain, run.summary
    parameters = summary["parameters"].get(network.folder)
    facts = {
        "Objective": OBJECTIVES[pretrain.objective],
        "Generator": _generator(pretrain),
        "Parameters": f"{parameters:,}" if parameters else "as `discriminator/`, but for the head",
        "Vocabulary": f"{summary['vocab_size']:,} WordPiece pieces, {_cuts(config)}",
        "Training": f"{_steps(config)}, {summary['tokens']:,} tokens",
        "Training FLOPs": (
            f"{summary['flops_paper']:.2e} (the paper's convention), "
            f"{summary['flops_6nd']:.2e} (6ND)"
        ),
        "Hardware": f"{summary['device']}, {summary['seconds'] / 3600:.2f} hours",
        "Validation": ", ".join(
            f"{key} {value}"
            for key, value in run.valid.items()
            if key not in _PLACE and "/" not in key and isinstance(value, int | float)
        ),
    }
    if pretrain.initial_model:
        facts["Trained on from"] = ", ".join(
            f"`{path}`" for path in (pretrain.initial_model, pretrain.initial_generator) if path
        )
    return facts


def _steps(config: RunConfig) -> str:
    """`10 steps of 4 sequences`; of each phase where there are several."""
    phases = phases_of(config.pretrain, config.encode.sequence_length)
    if len(phases) == 1:
        return f"{phases[0].num_steps:,} steps of {phases[0].batch_size} sequences"
    return ", then ".join(
        f"{p.num_steps:,} steps of {p.batch_size} sequences of {p.sequence_length}" for p in phases
    )


def _generator(config: PretrainConfig) -> str:
    if config.objective == "mlm":
        return "none"
    if config.generator != "learned":
        return f"none that is trained: {config.generator} noise"
    if not has_plain_generator(config):
        return (
            "two towers, which `transformers` has no class for: not exported, its weights are in "
            "the run's checkpoint"
        )
    return (
        f"{config.generator_num_hidden_layers} layers, hidden {config.generator_hidden_size}; "
        f"weight sharing: {config.weight_sharing}"
    )


def _limits(config: RunConfig) -> list[str]:
    length, positions = trained_length(config), config.pretrain.max_position_embeddings
    lines = [f"- Trained on sequences of at most {length} tokens."]
    if length < positions:
        lines[0] += (
            f" Positions {length} to {positions - 1} were not trained: they are as at the start."
        )
    across = (
        "each token attends inside its own document, whose positions begin at 0"
        if config.pretrain.attention == "document"
        else "each token attends to the whole sequence, documents beside its own included"
    )
    lines.append(f"- Packing: {config.encode.packing}; {across}.")
    return lines


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


def _corpus_table(config: RunConfig, corpus: Json) -> list[str]:
    head = ["| language | source | documents read | documents kept |", "|---|---|---|---|"]
    rows = [
        f"| {row['language']} | {row['source']} | {row['documents_in']:,} | "
        f"{row['documents_kept']:,} |"
        for row in corpus["sources"]
    ]
    licences = sorted({s.licence for s in config.clean.sources if s.licence})
    named = ", ".join(licences) or "none; see each document's"
    return [*head, *rows, "", f"Licences named in the config: {named}."]


def _removed_table(corpus: Json) -> list[str]:
    removed: Counter[str] = Counter()
    for row in corpus.get("removed", []):
        removed[row["reason"]] += row["documents"]
    if not removed:
        return ["None."]
    rows = [f"| {reason} | {count:,} |" for reason, count in removed.most_common()]
    return ["| reason | documents |", "|---|---|", *rows]


def _last_valid(path: Path) -> Json:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    last: Json = [r for r in records if r["kind"] == "valid"][-1]
    return last


def _was_scored(evaluation: Path, export_digest: str) -> bool:
    """Whether the scores there are of this very export."""
    if not (evaluation / MANIFEST).exists():
        return False
    return bool(read_manifest(evaluation)["inputs"].get("export") == export_digest)
