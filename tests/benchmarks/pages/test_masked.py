"""Hidden tokens in the report: figures as they were measured, runs compared on the same tokens."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.pages.masked import add_masked, add_masked_comparison
from benchmarks.pages.twin_page import TwinPage
from benchmarks.report import report
from benchmarks.results.run_folder import read_run
from electrify.stage.folder import Stage, write_json, write_text
from electrify.stage.masked_report import (
    ContextFigures,
    Estimate,
    Example,
    Gain,
    Group,
    Guess,
    MaskedReport,
    SequenceSums,
    read_report,
    sequence_line,
)
from electrify.stage.run import run_stage

CONTEXTS = ("as in training", "one at a time")
HOSTILE = "<script>alert('x')</script> | \x00 \u202e \uffff"


def estimate(value: float) -> Estimate:
    return Estimate(value=value, low=value - 0.02, high=value + 0.02)


def group(main: str, value: float, num_sequences: int) -> Group:
    own = {"accuracy": estimate(value), "log_likelihood": estimate(-5 * (1 - value))}
    if main == "main":
        return Group(
            num_sequences=num_sequences,
            num_positions=4 * num_sequences,
            coverage=None,
            predictors={"main": own},
            gains={},
        )
    gain = Gain(value=0.05, low=0.01, high=0.09, outcome="better")
    return Group(
        num_sequences=num_sequences,
        num_positions=4 * num_sequences,
        coverage=estimate(0.87),
        predictors={
            "generator": {"accuracy": estimate(value - 0.05), "log_likelihood": estimate(-4.0)},
            "discriminator": {"accuracy": estimate(0.123)},
            "inversion": own,
        },
        gains={"inversion": {"accuracy": gain}},
    )


def make_masked(
    folder: Path, main: str, hits: list[int], stage: str = "masked", **changes: object
) -> Path:
    """A run folder with hidden tokens alone: 4 a sequence, `hits` of them right."""
    value = sum(hits) / (4 * len(hits))
    made = MaskedReport(
        **(
            {
                "objective": "mlm" if main == "main" else "electra",
                "step": 300,
                "seed": 0,
                "split": "valid",
                "sequence_length": 128,
                "mask_fraction": 0.15,
                "num_candidates": None if main == "main" else 64,
                "main": main,
                "positions_sha256": "a" * 64,
                "contexts": {
                    context: ContextFigures(
                        all=group(main, value, len(hits)),
                        languages={"ko": group(main, value, 2), "en": group(main, value, 3)},
                    )
                    for context in CONTEXTS
                },
                "examples": [
                    Example(
                        language="ko",
                        before=HOSTILE,
                        hidden="봄",
                        after="오면",
                        guesses={main: [Guess(token=HOSTILE, probability=0.5)]},
                    )
                ],
            }
            | changes
        )
    )
    sequences = [
        SequenceSums(
            language="ko",
            num_positions=4,
            sums={c: {main: {"accuracy": float(n), "log_likelihood": -9.0}} for c in CONTEXTS},
        )
        for n in hits
    ]

    def work(partial: Path) -> dict[str, int]:
        write_json(partial / "report.json", made.model_dump(mode="json"))
        write_text(partial / "sequences.jsonl", "".join(sequence_line(s) + "\n" for s in sequences))
        return {}

    run_stage(Stage("predict-masked", folder / stage, {"num_sequences": len(hits)}), work)
    return folder


def markdown_of(folder: Path) -> str:
    document = TwinPage("t")
    add_masked(document, read_run(folder))
    return document.markdown()


def test_figures_gains_languages_and_the_published_ones(tmp_path):
    text = markdown_of(make_masked(tmp_path / "a", "inversion", [1, 2, 3]))
    assert "12 tokens hidden in 3 held-out sequences of 128 tokens, at step 300" in text
    assert "0.870 (0.850 to 0.890) where it is hidden with all others" in text
    row = "| discriminator by inversion | 0.500 (0.480 to 0.520) | – | -2.500 (-2.520 to -2.480) |"
    assert text.count(row) == 2 + 4  # both ways to hide, and both for each language
    assert "| first guess right | 0.05 | 0.0100 to 0.0900 | better |" in text
    assert "| BERT-Base | its own prediction at \\[MASK\\] | 77.9 |" in text
    assert "| ELECTRA-Base | by inversion of the best discriminator | 75.5 |" in text
    assert "could not be confirmed" in text


def test_without_the_stage_there_is_the_command(tmp_path):
    (tmp_path / "run" / "pretrain.partial").mkdir(parents=True)
    assert "Run: electrify predict-masked CONFIG" in markdown_of(tmp_path / "run")


def test_checkpoints_on_the_way_are_a_curve(tmp_path):
    for step in (100, 200):
        make_masked(
            tmp_path / "a", "main", [step // 100, 2], f"masked-checkpoint-{step}", step=step
        )
    document = TwinPage("t")
    run = read_run(tmp_path / "a")
    add_masked(document, run)
    assert "at step 200" in document.markdown()  # the last one, where no last checkpoint is there
    document.write(tmp_path / "page", {})
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert "Hidden tokens named at the first guess" in page
    assert set(run.masked) == {"masked-checkpoint-100", "masked-checkpoint-200"}


def compare(*folders: Path) -> str:
    document = TwinPage("t")
    runs = [read_run(folder) for folder in folders]
    add_masked_comparison(document, runs, [run.name for run in runs])
    return document.markdown()


def test_runs_are_compared_token_by_token(tmp_path):
    rng = np.random.default_rng(0)
    hits = rng.integers(0, 4, 40)
    bert = make_masked(tmp_path / "bert", "main", hits.tolist())
    electra = make_masked(tmp_path / "electra", "inversion", (hits + 1).tolist())
    same = make_masked(tmp_path / "same", "inversion", rng.permutation(hits).tolist())
    text = compare(bert, electra, same)
    # one more of four in every sequence: a quarter, without any spread, though the heights vary
    assert text.count("| 0.25 | 0.2500 to 0.2500 | better |") == 2
    assert text.count("cannot tell apart") == 2
    assert compare(bert) == compare(bert, tmp_path_without(tmp_path)) == TwinPage("t").markdown()


def tmp_path_without(folder: Path) -> Path:
    (folder / "unmeasured" / "pretrain.partial").mkdir(parents=True, exist_ok=True)
    return folder / "unmeasured"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sequence_length": 64}, "sequence length differs"),
        ({"mask_fraction": 0.3}, "mask fraction differs"),
        ({}, "other texts or other hidden tokens"),
    ],
)
def test_other_tokens_are_not_compared(tmp_path, changes, why):
    first = make_masked(tmp_path / "a", "main", [1, 2])
    second = make_masked(tmp_path / "b", "main", [3, 3], positions_sha256="b" * 64, **changes)
    text = compare(first, second)
    assert text.count(f"not comparable: {why}") == 2
    assert "better" not in text


def test_the_whole_report_holds_it_and_escapes_it(tmp_path):
    run = make_masked(tmp_path / "run", "inversion", [1, 2, 3])
    report([run])
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "Hidden tokens" in page
    text = (run / "report.md").read_text(encoding="utf-8")
    assert not re.search(r"(?<!\\)<script", text)
    assert not {"\u202e", "\uffff"} & {*page, *text}


@pytest.mark.parametrize("damage", ["cut", "format", "unknown", "empty"])
def test_a_damaged_file_is_named(tmp_path, damage):
    run = make_masked(tmp_path / "run", "inversion", [1, 2, 3])
    path = run / "masked" / "report.json"
    text = path.read_text(encoding="utf-8")
    whole = json.loads(text)
    broken = {
        "cut": text[: len(text) // 2],
        "format": json.dumps(whole | {"format_version": 9}),
        "unknown": json.dumps(whole | {"surprise": 1}),
        "empty": "",
    }
    path.write_text(broken[damage], encoding="utf-8")
    with pytest.raises(ValueError, match=r"report.json is damaged .*run again: electrify predict"):
        report([run])


def test_a_report_reads_back_as_it_was_written(tmp_path):
    run = make_masked(tmp_path / "run", "inversion", [1])
    found = read_report(run / "masked")
    assert MaskedReport.model_validate_json(found.model_dump_json()) == found
