"""The fast path in the pretraining benchmark: its variants, its kernels, its loss curves."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from benchmarks.throughput import pretrain, pretrain_band
from benchmarks.throughput.pretrain import curve_pool, measure_curves, measure_pretraining
from benchmarks.throughput.pretrain_band import WINDOW, Band
from benchmarks.throughput.pretrain_figures import judge
from benchmarks.throughput.pretrain_kernels import OTHER, Kernel, OnDevice, kind_of, summed
from benchmarks.throughput.pretrain_settings import PretrainSettings
from benchmarks.throughput.pretrain_table import build_pretrain_page
from benchmarks.throughput.pretrain_text import sample_pool, sample_texts
from benchmarks.throughput.pretrain_variants import AS_WRITTEN, OURS, PADDED

CPU = torch.device("cpu")
SETTINGS = PretrainSettings(
    device="cpu", size="tiny", rounds=2, steps=1, vocab_size=300, with_ceilings=False
)


def as_it_is(function: Any, **_: object) -> Any:
    return function


# --- variants -------------------------------------------------------------------------------------


def test_beside_the_fast_path_the_same_step_is_timed_as_it_is_written(monkeypatch):
    # the compiler takes a minute and more; what is called in its place is what it would compile
    monkeypatch.setattr(torch, "compile", as_it_is)
    figures = measure_pretraining(replace(SETTINGS, fast="on"))
    assert [of.timed.name for of in figures.systems] == [OURS, AS_WRITTEN, PADDED]
    assert {"ratio_to_as_written", "cpu_time_ratio_to_as_written"} <= set(figures.ratios)
    assert figures.conditions["how"] == "fp32, compiled"
    fast, written, _ = figures.systems
    assert fast.operators is None  # compiled code hides them
    assert written.operators is not None
    assert figures.parts
    assert "against itself neither compiled" in build_pretrain_page(figures).markdown()


def test_on_the_cpu_a_run_s_own_path_is_the_step_as_it_is_written():
    figures = measure_pretraining(SETTINGS)
    assert [of.timed.name for of in figures.systems] == [OURS, PADDED]
    assert figures.conditions["how"] == "fp32, as written"


def test_options_of_the_fast_path_reach_the_config():
    def chosen(fast: Any) -> tuple[str, str]:
        config = replace(SETTINGS, fast=fast).config()
        return config.compile, config.cuda_graph

    assert [chosen(fast) for fast in ("auto", "on", "off")] == [
        ("auto", "auto"),
        ("on", "auto"),
        ("off", "off"),
    ]


# --- kernels --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    microseconds: float

    def elapsed_us(self) -> float:
        return self.microseconds


@dataclass(frozen=True)
class Event:
    name: str
    device_type: str
    time_range: Range = Range(0)
    is_user_annotation: bool = False


def test_kernels_are_counted_by_step_and_kind():
    gpu, cpu = "DeviceType.CUDA", "DeviceType.CPU"
    gemm, fused = "sm90_xmma_gemm_bf16", "triton_poi_fused_gelu_3"
    events = [
        Event(gemm, gpu, Range(30)),
        Event(gemm, gpu, Range(10)),
        Event(fused, gpu, Range(8)),
        Event("step", gpu, Range(99), is_user_annotation=True),
        Event("cudaGraphLaunch", cpu),
        Event("cudaMemcpyAsync", cpu),
        Event("cudaEventRecord", cpu),
        Event("aten::mm", cpu),
    ]
    found = summed(events, num_steps=2)
    assert found.kernels == [
        Kernel(gemm, 1.0, pytest.approx(20e-6)),
        Kernel(fused, 0.5, pytest.approx(4e-6)),
    ]
    assert found.num_launches == 1.5
    assert found.num_host_calls == 1.0
    assert found.seconds == pytest.approx(24e-6)
    assert [kind.name for kind in found.by_kind()] == ["matrix products", "fused by the compiler"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "attention"),
        ("void pytorch_flash::flash_bwd_kernel<...>", "attention"),
        ("nvjet_tst_128x64_64x8_1x2_h_bz_TNT", "matrix products"),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<...FusedAdam...>",
            "optimizer and norms of gradients",
        ),
        ("triton_per_fused_add_native_layer_norm_7", "fused by the compiler"),
        ("Memcpy HtoD (Pinned -> Device)", "copies and fills"),
        ("void at::native::bitonicSortKVInPlace<...>", "sorting and scattering"),
        ("something_new", OTHER),
    ],
)
def test_names_of_kernels_tell_what_they_are_for(name: str, kind: str):
    assert kind_of(name) == kind


# --- loss curves ----------------------------------------------------------------------------------


def band_of(plain: list[float], fast: list[float]) -> Band:
    """Flat curves at these heights."""
    curves = [[[height] * (2 * WINDOW + 3) for height in of] for of in (plain, plain, fast)]
    return Band("x", 2 * WINDOW + 3, "fp32, compiled", *curves)


def test_the_mean_of_the_fast_path_must_lie_within_the_plain_path_s_seeds():
    inside = band_of([1.0, 2.0, 3.0], [0.5, 2.5, 5.0])  # mean 2.67
    assert inside.limits() == ([1.0, 1.0], [3.0, 3.0])
    assert inside.share_inside(inside.fast) == 1.0
    outside = band_of([1.0, 2.0, 3.0], [3.0, 3.0, 3.1])
    assert outside.share_inside(outside.fast) == 0.0
    wider = replace(outside, other_dropout=outside.fast)
    assert wider.limits() == ([1.0, 1.0], [3.1, 3.1])
    assert wider.share_inside(wider.fast) == 1.0
    half = replace(inside, fast=[[1.5] * WINDOW + [9.0] * WINDOW + [0.0] * 3] * 3)
    assert half.share_inside(half.fast) == 0.5
    found = outside.figures()
    assert found["mean_absolute_difference_fast_to_plain"] == pytest.approx(3.1 / 3)
    assert found["mean_absolute_difference_between_seeds"] == pytest.approx(4 / 3)
    assert found["mean_absolute_difference_by_other_dropout"] == 0
    assert found["last_100_steps_plain_sd_over_runs"] == pytest.approx(0.8**0.5)


def test_two_plain_runs_of_one_seed_are_the_same_and_other_dropout_is_not(monkeypatch):
    """So what parts the paths is the fast one's doing, or dropout's."""
    monkeypatch.setattr(torch, "compile", as_it_is)
    monkeypatch.setattr(pretrain_band, "WINDOW", 2)
    settings = replace(SETTINGS, band_steps=4, with_peer=True)
    monkeypatch.setattr(PretrainSettings, "band_config", lambda self, _: self.config())
    band = measure_curves(settings, CPU, curve_pool(settings, CPU))
    figures = band.figures()
    assert figures["mean_absolute_difference_fast_to_plain"] == 0
    assert figures["mean_absolute_difference_by_other_dropout"] > 0
    assert figures["mean_absolute_difference_between_seeds"] > 0
    assert figures["share_of_points_inside_the_band"] == 1.0
    assert [len(curve) for curve in band.peer] == [4] * 3
    assert band.fast[0][0] == pytest.approx(band.peer[0][0], rel=0.2)  # the same weights and text


def test_too_little_text_for_curves_is_told_before_anything_is_measured(monkeypatch):
    def measured(self: object) -> None:
        raise AssertionError("began")

    monkeypatch.setattr(pretrain.Bench, "build", measured)
    monkeypatch.setattr(pretrain, "BAND_SHAPE_ON_CPU", (100_000, 64))
    with pytest.raises(ValueError, match="--run DIR"):
        measure_pretraining(replace(SETTINGS, band_steps=4))


def test_the_report_shows_the_curves_and_judges_them(monkeypatch):
    figures = measure_pretraining(SETTINGS)
    figures.band = band_of([1.0, 2.0, 3.0], [2.0, 2.0, 2.0])
    goal = judge(figures)[-1]
    assert goal.met is True
    assert goal.value == 1.0
    text = build_pretrain_page(figures).markdown()
    assert "share of points inside the band" in text
    figures.on_device = OnDevice([Kernel("nvjet_x", 2.0, 1e-5)], 1.0)
    assert "matrix products" in build_pretrain_page(figures).markdown()
    plain = json.loads(json.dumps(figures.as_json(), allow_nan=False))
    assert plain["band"]["figures"]["share_of_points_inside_the_band"] == 1.0
    assert len(plain["band"]["fast"]) == 3


def test_the_sample_fills_rows_with_its_text():
    config = SETTINGS.config()
    pool = sample_pool(config, 4, 32)
    assert pool.shape == (4, 32)
    ids, types = pool.input_ids[0], pool.token_type_ids[0]
    special = pool.special
    assert bool((ids[:, 0] == special.cls).all())
    assert bool((ids[:, 16] == special.sep).all())
    assert bool((ids[:, -1] == special.sep).all())
    assert types[0].tolist() == [0] * 17 + [1] * 15
    assert not bool((torch.cat(pool.input_ids) == special.mask).any())
    tokens = sum(of.numel() for of in pool.input_ids)
    assert tokens > 0.1 * sum(map(len, sample_texts()))  # nearly all of it is there
    with pytest.raises(ValueError, match=r"sequences of 512 tokens, a step 1000: .*--run DIR"):
        sample_pool(config, 1000, 512)
