"""The card of a network's ONNX files: what int8 loses, where that was measured, what was forced."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.onnx.gate import MAX_LOST, MIN_AGREEMENT
from benchmarks.results.results import percent
from benchmarks.results.table import record_lines
from electrify.stage.folder import write_text

if TYPE_CHECKING:
    from benchmarks.onnx.convert import Judged

CARD = "README.md"


def front_matter(network: Path) -> str:
    """That of the network's model card, which may stand one folder up: it has the licence."""
    cards = (place / CARD for place in (network, network.parent))
    texts = (card.read_text(encoding="utf-8") for card in cards if card.is_file())
    found = (re.match(r"---\n.*?\n---\n", text, re.DOTALL) for text in texts)
    return next((f"{match[0]}\n" for match in found if match), "")


def write_card(
    folder: Path,
    name: str,
    metadata: str,
    differences: Mapping[str, Mapping[int, float]],
    judged: Sequence["Judged"],
    machine: str,
) -> None:
    """`README.md` of a network; `metadata` stands at its top; `differences` to torch are by network
    and length."""
    rows = [
        {"network": network, **{f"length {length}": f"{of:.1e}" for length, of in by.items()}}
        for network, by in differences.items()
    ]
    lines = [
        f"{metadata}# {name}, ONNX",
        "",
        "`model.onnx` is in single precision. Inputs are `input_ids`, `attention_mask` and "
        "`token_type_ids`, each (batch, length) int64. Largest difference of any output to torch:",
        "",
        *record_lines(rows),
        *(line for each in judged for line in _variant_lines(name, each)),
        "",
        f"A variant is written if no score loses more than {percent(MAX_LOST)} points and "
        f"{percent(MIN_AGREEMENT)} % of the predictions or more are those of fp32 (of a sequence, "
        "of its tags; masked tokens are scored alone). Lost: fp32 less "
        "int8, in points, with the 95 % interval over examples. Each row was predicted alone: in a "
        "batch the scales of the activations depend on the other rows. Scored on one thread of "
        f"{machine}. On processors that are not named here nothing was measured.",
    ]
    write_text(folder / CARD, "\n".join(lines) + "\n")


def _variant_lines(name: str, judged: "Judged") -> list[str]:
    state = f"`model.{judged.variant}.onnx`" if judged.is_written else "not written"
    about = f"{judged.about[0].upper()}{judged.about[1:]}. {judged.bytes[name] / 1e6:.2f} MB."
    lines = ["", f"## {judged.variant}: {state}", "", about, ""]
    if judged.problems:
        how = "**Written by force, although**" if judged.is_written else "Not written, because"
        lines += [f"{how} {'; '.join(judged.problems)}.", ""]
    if judged.kept:
        lines += [f"In fp32: {', '.join(f'`{module}`' for module in judged.kept)}.", ""]
    rows = [
        {
            "scored on": loss.benchmark,
            "metric": loss.metric,
            "fp32": percent(loss.fp32),
            "int8": percent(loss.int8),
            "lost": percent(loss.lost.value),
            "95 % interval": loss.lost.text(),
            "agreement": f"{percent(loss.agreement)} % of {loss.num_units:,} {loss.unit}",
        }
        for loss in judged.losses
    ]
    return [*lines, *_processor_lines(judged.errors), *record_lines(rows)]


def _processor_lines(errors: Mapping[str, float]) -> list[str]:
    if "here" not in errors:
        return []
    here = f"Error of the outputs to fp32, in parts of their size: {errors['here']:.3f} here"
    if "avx2" not in errors:
        return [f"{here}. Not run with AVX2 alone: no emulator is installed.", ""]
    return [f"{here}, {errors['avx2']:.3f} with AVX2 alone (an emulated Haswell).", ""]
