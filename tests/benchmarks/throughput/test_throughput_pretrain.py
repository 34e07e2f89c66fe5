"""The pretraining benchmark at a tiny size, and the counts that a step of ours is held to."""

import json
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.throughput.__main__ import main
from benchmarks.throughput.pretrain import pretrain
from benchmarks.throughput.pretrain.pretrain import (
    Settings,
    measure,
)
from benchmarks.throughput.pretrain.systems import (
    AGAIN,
    COMPILED_PEER,
    OURS,
    PEER,
    Pool,
    Timed,
    Variant,
    make_ours,
    make_peer,
    zipf_pool,
)
from model import vocabulary_head as head_loss
from model.batch import SpecialTokens
from model.watch.flops import flops_per_token
from tests.benchmarks.throughput.operators import Recorded, record

CPU = torch.device("cpu")
VOCAB_SIZE, BATCH_SIZE, LENGTH = 300, 4, 32
NUM_SLOTS = 4  # int(0.155 x 32)
SPECIAL = SpecialTokens(pad=0, cls=2, sep=3, mask=4)
SETTINGS = Settings(device="cpu", size="tiny", rounds=2, steps=1, vocab_size=VOCAB_SIZE)


def tiny_pool() -> Pool:
    return zipf_pool(SETTINGS.config(), BATCH_SIZE, LENGTH, VOCAB_SIZE, SPECIAL)


def recorded_step(variant: Variant) -> Recorded:
    """A step of a variant that has made its moments."""
    variant.run_first()
    return record(lambda: variant.run(1))


def rows_over_vocabulary(found: Recorded) -> dict[torch.dtype, list[int]]:
    """Of each tensor as wide as the vocabulary or a little more, by type: its rows."""
    rows: dict[torch.dtype, list[int]] = {}
    for (shape, dtype), count in found.made.items():
        if len(shape) > 1 and VOCAB_SIZE <= shape[-1] < 2 * VOCAB_SIZE:
            rows.setdefault(dtype, []).extend([torch.Size(shape[:-1]).numel()] * count)
    return rows


def test_logits_are_never_there_for_more_than_a_chunk_of_the_masked_positions(monkeypatch):
    """So no tensor of [all positions, vocabulary], and none of [masked ones, vocabulary]."""
    monkeypatch.setitem(head_loss._CHUNK_ELEMENTS, "cpu", 6 * VOCAB_SIZE)
    chunks = [6, 6, 4]
    assert sum(chunks) == BATCH_SIZE * NUM_SLOTS
    fp32, bf16 = (
        rows_over_vocabulary(recorded_step(make_ours(config, tiny_pool(), CPU)))
        for config in (SETTINGS.config(), replace(SETTINGS, precision="bf16").config())
    )
    # two of a chunk: logits, in whose place their gradient is, and probabilities
    assert fp32.keys() == {torch.float32}
    assert sorted(fp32[torch.float32]) == sorted(chunks * 2)
    assert {dtype: sorted(rows) for dtype, rows in bf16.items()} == {
        torch.bfloat16: sorted(chunks),
        torch.float32: sorted(chunks),
    }
    # the recorder does see all positions where they are: the peer's head runs over them
    peer = recorded_step(make_peer(SETTINGS.config(), tiny_pool(), CPU, compiled=False))
    assert max(rows_over_vocabulary(peer)[torch.float32]) == BATCH_SIZE * LENGTH


def test_a_step_of_small_has_the_products_that_its_formula_counts():
    config = replace(SETTINGS, size="small").config()
    variant = make_ours(config, zipf_pool(config, 2, 128), CPU)
    with FlopCounterMode(display=False) as counter:
        variant.run(1)
    per_token = counter.get_total_flops() / (2 * 128)
    assert per_token == pytest.approx(70.19e6, rel=1e-4)
    assert per_token == pytest.approx(flops_per_token(config, 30_522, 128, "joint").matmul)


# of both networks' layer, forward and backward: the peer has 129 and 205
@pytest.mark.parametrize(("precision", "most"), [("fp32", 113), ("bf16", 133)])
def test_a_step_of_ours_dispatches_no_more_operators(precision: str, most: int):
    def working(depth: int) -> tuple[int, int]:
        config = replace(SETTINGS, precision=precision).config()
        config = config.model_copy(update={"num_hidden_layers": depth})
        ours = recorded_step(make_ours(config, tiny_pool(), CPU))
        peer = recorded_step(make_peer(config, tiny_pool(), CPU, compiled=False))
        return ours.working, peer.working

    (ours_1, peer_1), (ours_2, peer_2) = working(1), working(2)
    layer, peer_layer = ours_2 - ours_1, peer_2 - peer_1
    assert layer <= most < peer_layer
    # outside the layers stand masking on the device, sampling by two draws, the norm of a step and
    # the sums of its figures, of which the peer has none, and a second group that counts its steps
    assert (ours_1 - layer) - (peer_1 - peer_layer) <= 114


def test_sequences_have_the_layout_of_a_run():
    pool = tiny_pool()
    for ids, types in zip(pool.input_ids, pool.token_type_ids, strict=True):
        assert ids.shape == (BATCH_SIZE, LENGTH)
        assert bool((ids[:, 0] == SPECIAL.cls).all())
        assert not bool(((ids == SPECIAL.mask) | (ids == SPECIAL.pad)).any())
        for row, kinds in zip(ids.tolist(), types.tolist(), strict=True):
            first = row.index(SPECIAL.sep)
            assert row.index(SPECIAL.sep, first + 1) == LENGTH - 1
            assert kinds == [int(place > first) for place in range(LENGTH)]
    ids = torch.cat(pool.input_ids)[:, 1:]
    words = ids[ids != SPECIAL.sep]
    # of 296 words the second is half as frequent as the first, which is 1 of 6.27
    shares = torch.bincount(words)[[1, 5]] / len(words)
    assert shares.tolist() == pytest.approx([1 / 6.27, 0.5 / 6.27], rel=0.2)


def timed(name: str, *seconds: float) -> Timed:
    return Timed(name, list(seconds), [2 * of for of in seconds])


def test_rates_are_medians_and_flops_by_one_formula(monkeypatch):
    monkeypatch.setattr(pretrain, "peak_flops", lambda *_: 1e12)
    settings = replace(SETTINGS, size="small", length=32, batch_size=BATCH_SIZE)
    variant = Variant(OURS, lambda _: None, [], CPU, 0.0)
    systems = timed(OURS, 0.1, 0.2, 0.4), timed(PEER, 0.2, 0.2, 0.6), timed(OURS, 0.1, 0.1, 0.1)
    (row,) = pretrain.system_rows(settings, settings.config(), [variant], systems)
    assert row["tokens_per_second"] == pytest.approx(BATCH_SIZE * 32 / 0.2)
    assert row["spread"] == pytest.approx(1.5)
    flops = flops_per_token(settings.config(), VOCAB_SIZE, 32, "joint").matmul
    assert row["mfu"] == pytest.approx(flops * row["tokens_per_second"] / 1e12)
    peer, again = pretrain.ratio_rows(systems)
    assert (peer["against"], peer["by_the_clock"]) == (PEER, pytest.approx(1.5))
    assert (again["against"], again["by_the_clock"]) == (AGAIN, pytest.approx(0.5))


def test_the_whole_benchmark_at_a_tiny_size(monkeypatch, tmp_path, capsys):
    # the compiler takes a minute and more; what is called in its place is what it would compile
    monkeypatch.setattr(torch, "compile", lambda module: module)
    words = "pretrain --device cpu --size tiny --rounds 1 --steps 1 --peer --micro-batches 2"
    assert main([*words.split(), "--json", str(tmp_path / "a.json")]) == 0
    assert f"| {PEER}" in capsys.readouterr().out.replace("\\", "")
    report = json.loads((tmp_path / "a.json").read_text())
    systems = report["tables"]["systems"]
    names = [row["system"] for row in systems]
    assert names == [OURS, f"{OURS}, 2 micro-batches", PEER, COMPILED_PEER]
    against = [row["against"] for row in report["tables"]["ratios"]]
    assert against == [PEER, COMPILED_PEER, AGAIN]
    # only a GPU's allocator tells the one, and of a CPU no peak is known
    assert all(row["peak_memory_mb"] is row["mfu"] is None for row in systems)
    assert report["conditions"]["how"] == "fp32, as written"


def test_what_cannot_run_is_told_and_left_out(monkeypatch):
    def refuse(*_: object) -> None:
        raise RuntimeError("no compiler here\nand more")

    monkeypatch.setattr(torch, "compile", refuse)
    report = measure(replace(SETTINGS, with_peer=True))
    assert COMPILED_PEER not in [row["system"] for row in report.tables["systems"].rows]
    assert COMPILED_PEER not in [row["against"] for row in report.tables["ratios"].rows]
    assert report.notes == ["peer_hf_compiled did not run: no compiler here"]
    monkeypatch.setattr(pretrain, "make_ours", refuse)
    with pytest.raises(ValueError, match="electrify did not run: no compiler here: try a smaller"):
        measure(SETTINGS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--micro-batches", "3"], "--micro-batches 3 of 4 sequences"),
        (["--length", "8"], "--length 8: from 16"),
    ],
)
def test_what_a_user_got_wrong_is_told(arguments: list[str], words: str, capsys):
    assert main(["pretrain", "--device", "cpu", "--size", "tiny", *arguments]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["pretrain", "--rounds", "0"],
        ["pretrain", "--dropout", "1"],
        ["finetune", "--seeds", "a"],
        ["finetune", "--rows", "0"],
        ["finetune", "--epochs", "0"],
        ["corpus", "--workers", "0"],
        *(["vocab", "--megabytes", size] for size in ("", "x", "0", "-3", "nan", "inf")),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(words: list[str], capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert words[1] in capsys.readouterr().err
