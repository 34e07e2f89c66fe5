"""How many sequences of one pass fit each kind of card: `python -m tests.cuda.nullgpu.memory`.

torch's own allocator counts the bytes of real steps in bf16, as written, on the null GPU. Memory
grows evenly with the sequences, so two sizes give what a step needs and each sequence adds; the
most that fit are then run on a card of that memory, which refuses what it has not. A row has the
preset, tokens, GB of no sequence, MB of each, and the sequences that fit each card.
"""

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig
from electrify.system.outcome import UserError
from model.batch import SpecialTokens
from model.devices.device import resolve_device
from model.objectives import make_pretrainer
from tests.cuda.conftest import make_step
from tests.cuda.nullgpu.card import build, environment, is_null_gpu
from tests.model.conftest import batch_from

# preset, tokens of a sequence, two numbers of sequences whose memory is measured
STEPS = (
    ("small", 128, 64, 128),
    ("small", 512, 16, 32),
    ("base", 512, 16, 32),
    ("modern-small", 128, 64, 128),
    ("modern-small", 1024, 8, 16),
    ("modern-base", 1024, 4, 8),
    ("modern-base", 8192, 1, 2),
)
CARDS_GB = (24, 40, 80)
USABLE = 0.97  # of a card; the driver and the context take the rest
VOCAB_SIZE = 32_000


def peak_gb(size: str, length: int, rows: int, card: float = 0) -> float | None:
    """Peak of two steps of a preset in GB; None if a card of so many GB runs out of memory."""
    gc.collect()
    torch.cuda.empty_cache()
    fraction = USABLE * card * 1e9 / torch.cuda.mem_get_info()[1] if card else 1.0
    torch.cuda.set_per_process_memory_fraction(fraction)
    fields = SIZE_PRESETS[size] | {"device": "cuda", "max_position_embeddings": max(512, length)}
    fields["attention"] = "document" if size.startswith("modern") else "sequence"  # as `configs/`
    config = PretrainConfig.model_validate(fields)
    device = resolve_device("cuda")
    with device:
        model = make_pretrainer(config, VOCAB_SIZE, SpecialTokens(0, 2, 3, 4), None)
    step, _ = make_step(model, compile="off", precision="bf16")
    batch = batch_from(config, torch.full((rows, length), 7)).to(device)
    torch.cuda.reset_peak_memory_stats()
    try:
        for number in range(2):
            step([batch], number)
    except UserError:
        return None
    return torch.cuda.max_memory_allocated() / 1e9


def most_rows(size: str, length: int, card: float, rows: int) -> int:
    """The most sequences that fit, `rows` or fewer, in steps of about a twentieth."""
    while rows > 0 and peak_gb(size, length, rows, card) is None:
        rows -= max(1, rows // 20)
    return rows


def print_table() -> None:
    for size, length, few, more in STEPS:
        low, high = peak_gb(size, length, few), peak_gb(size, length, more)
        assert low is not None
        assert high is not None
        each = (high - low) / (more - few)
        cells = [f"{low - few * each:.1f}", f"{each * 1000:,.0f}"]
        for card in CARDS_GB:
            expected = int((USABLE * card - low) / each) + few
            cells.append(str(most_rows(size, length, card, expected)))
        print(f"| {size} | {length:,} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    if is_null_gpu():
        return print_table()
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        command = [sys.executable, "-m", "tests.cuda.nullgpu.memory"]
        sys.exit(subprocess.run(command, env=os.environ | environment(Path(folder))).returncode)


if __name__ == "__main__":
    main()
