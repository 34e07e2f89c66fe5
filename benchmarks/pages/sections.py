"""The parts of a run's report, each from one stage; a stage not made yet is a sentence."""

import json

from benchmarks.pages.twin_page import TwinPage
from benchmarks.results.run_folder import STAGES, Json, RunFolder
from electrify.config.load import toml_value
from electrify.stage.plan import READ_OPTIONS
from electrify.stage.remote import address_of
from electrify.system.progress import duration

Points = list[tuple[float, float]]


def missing(document: TwinPage, run: RunFolder, stage: str, what: str) -> bool:
    """Say that a stage is not there, or only in part; True if there is nothing to show."""
    if stage in run.unfinished:
        document.paragraph(
            f"The stage {stage} is not finished; figures are those so far. "
            f"Go on with: electrify {STAGES.get(stage, 'evaluate')} CONFIG"
        )
    elif stage not in run.manifests:
        document.paragraph(f"{what}: not there yet. Run: electrify {STAGES[stage]} CONFIG")
        return True
    return False


def curve(run: RunFolder, kind: str, metric: str, over: str = "step") -> Points:
    """(step or tokens, value) of one metric; undefined values left out."""
    return [
        (float(record[over]), float(record[metric]))
        for record in run.metrics
        if record["kind"] == kind and record.get(metric) is not None
    ]


def final_valid(run: RunFolder) -> Json:
    """The last validation's record, empty if there was none."""
    return next((record for record in reversed(run.metrics) if record["kind"] == "valid"), {})


def add_example(document: TwinPage, run: RunFolder) -> None:
    """One sentence with replaced words, and what the discriminator makes of each token."""
    if missing(document, run, "export", "An example of the discriminator at work"):
        return
    if not run.example:
        document.paragraph(
            "The export holds no example.json: nothing is exported yet, or the objective gives no "
            "probability of a token being replaced."
        )
        return
    document.paragraph(f"The sentence: {run.example['sentence']}")
    document.paragraph(f"With a word replaced: {run.example['corrupted']}")
    document.tokens(
        "Probability that a token was replaced, as the discriminator sees it (framed: it was)",
        [(t["token"], float(t["probability"]), t["replaced"]) for t in run.example["tokens"]],
    )


def add_cost(document: TwinPage, run: RunFolder) -> None:
    """Time and memory of each stage, what it ran on, and how to run it again."""
    rows = [
        {
            "stage": stage,
            "time": duration(made["seconds"]),
            "seconds": made["seconds"],
            "peak memory (MB)": made["peak_memory_mb"],
            "files (MB)": sum(entry["bytes"] for entry in made["files"].values()) / 1e6,
            "code": made["git_commit"],
            "finished (UTC)": made["finished_at"],
        }
        for stage, made in run.manifests.items()
    ]
    if not rows:
        document.paragraph("No stage is finished yet.")
        return
    document.records(rows)
    used: dict[str, list[str]] = {}
    for made in run.manifests.values():
        for library, version in made["versions"].items():
            if version not in used.setdefault(library, []):
                used[library].append(version)
    document.table(["library", "version"], [(n, ", ".join(v)) for n, v in sorted(used.items())])
    document.paragraph(
        f"To make the run again, save the config below as configs/{run.name}.toml and run: "
        f"electrify run configs/{run.name}.toml"
    )
    document.code(f"The resolved config of {run.name}", config_toml(run))


def config_toml(run: RunFolder) -> str:
    """The config of the stages made so far, as `electrify run` reads it.

    The stages' manifests leave out what never changes a result: the Beam runner, and the folder of
    the benchmark data.
    """
    sections = {stage: dict(run.config(stage)) for stage in STAGES}
    lines = [f"name = {json.dumps(run.name, ensure_ascii=False)}"]
    if "seed" in sections["pretrain"]:
        lines.append(f"seed = {sections['pretrain'].pop('seed')}")
    place = address_of(run.folder) or run.folder.as_posix()
    lines.append(f"output_dir = {json.dumps(place, ensure_ascii=False)}")
    for option in READ_OPTIONS:
        if option in sections["pretrain"]:
            sections["shards"][option] = sections["pretrain"].pop(option)
    names = {"clean": "clean", "vocab": "vocab", "shards": "encode", "pretrain": "pretrain"}
    for stage, name in (names | {"evaluate": "evaluate"}).items():
        options = {k: v for k, v in sections[stage].items() if v is not None}
        if options:
            lines += ["", f"[{name}]", *(f"{k} = {toml_value(v)}" for k, v in options.items())]
    return "\n".join(lines) + "\n"


def words(key: str) -> str:
    """A JSON key as a reader says it."""
    return key.replace("_", " ")
