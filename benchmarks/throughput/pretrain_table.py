"""The figures of the pretraining benchmark as tables."""

from benchmarks.pages.twin_page import TwinPage
from benchmarks.throughput.figures import machine
from benchmarks.throughput.pretrain_band import WINDOW
from benchmarks.throughput.pretrain_figures import PACKAGES, PretrainFigures, System
from benchmarks.throughput.pretrain_parts import WHOLE
from benchmarks.throughput.pretrain_variants import AGAIN
from benchmarks.throughput.table import add_goals

_RATIOS = {
    "ratio_to_peer": "by the clock, against peer_hf_eager",
    "cpu_time_ratio_to_peer": "by processor time, against peer_hf_eager",
    "ratio_to_compiled_peer": "by the clock, against peer_hf_compiled",
    "cpu_time_ratio_to_compiled_peer": "by processor time, against peer_hf_compiled",
    "ratio_to_as_written": "by the clock, against itself neither compiled nor recorded",
    "cpu_time_ratio_to_as_written": "by processor time, against the same",
    "ratio_to_compiled_only": "by the clock, against itself compiled and not recorded",
    "cpu_time_ratio_to_compiled_only": "by processor time, against the same",
    f"ratio_to_{AGAIN}": "by the clock, against itself: the noise of this run",
}


_KERNELS, _NAME = 20, 90  # rows of the longest, letters of a name


def build_pretrain_page(figures: PretrainFigures) -> TwinPage:
    """Goals first, then what they were judged by."""
    document = TwinPage(
        "A step of pretraining, measured", "python -m benchmarks.throughput pretrain"
    )
    _add_conditions(document, figures)
    add_goals(document, figures.goals)
    _add_systems(document, figures)
    _add_ratios(document, figures)
    _add_band(document, figures)
    _add_parts(document, figures)
    _add_kernels(document, figures)
    _add_loader(document, figures)
    _add_counts(document, figures)
    _add_ceilings(document, figures)
    _add_correct(document, figures)
    _add_probes(document, figures)
    return document


def _add_conditions(document: TwinPage, figures: PretrainFigures) -> None:
    about, of = machine(PACKAGES), figures.conditions
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    document.paragraph(
        f"{about['date']}, {of['device']}, {about['cores']} cores of {about['processor']}, "
        f"{about['system']}, Python {about['python']}, {versions}, CUDA {of['cuda'] or 'none'}, "
        f"commit {of['git_commit'] or 'unknown'}."
    )
    document.paragraph(
        f"ELECTRA {of['size']}, {of['batch_size']} x {of['sequence_length']} tokens a step, "
        f"{of['vocab_size']:,} pieces, {of['data']}, {of['precision']}, dropout {of['dropout']:g}. "
        f"{of['rounds']} rounds of {of['steps_per_round']} steps of each system in turn in one "
        f"process, after {of['warmup_steps']} and a first step. A step is all of an update with "
        "the copy of its ids, draws and masking, forward and backward, clipping, AdamW and, of "
        f"ours, the sums of its figures. Ours: {of.get('how') or 'as written'}."
    )
    for note in figures.notes:
        document.paragraph(note)


def _add_systems(document: TwinPage, figures: PretrainFigures) -> None:
    document.heading("Systems")
    document.paragraph(
        "Medians over rounds; spread: slowest less fastest round, over the median. MFU: products "
        "that the objective needs, the head at masked positions only, for every system alike, by "
        "the peak of the data sheet. Memory: of a step with weights and moments; on a GPU only. "
        "First step, recorded: from before the model was built to the end of its first step, and "
        "of the first that was a replay. Hours: of the size's whole schedule at this rate."
    )
    rows = [_system_row(figures, system) for system in figures.systems]
    headers = (
        "",
        "data",
        "ms / step",
        "spread",
        "CPU ms / step",
        "tokens/s",
        "without padding",
        "MFU",
        "of measured matmul",
        "peak memory, MB",
        "first step, s",
        "recorded, s",
        "schedule, h",
    )
    document.table(headers, rows)


def _system_row(figures: PretrainFigures, system: System) -> tuple[object, ...]:
    timed, peak = system.timed, system.peak_bytes
    return (
        timed.name,
        system.data,
        1000 * timed.seconds,
        timed.spread,
        1000 * timed.cpu_seconds,
        system.positions_per_second,
        system.tokens_per_second,
        figures.mfu(system),
        figures.of_matmul(system),
        None if peak is None else peak / 1e6,
        system.first_seconds,
        system.recorded_seconds,
        figures.hours(system),
    )


def _add_ratios(document: TwinPage, figures: PretrainFigures) -> None:
    document.heading("How many times as fast ours is")
    document.paragraph("The median over rounds of the ratio within the round.")
    rows = [
        (text, figures.ratios[name]) for name, text in _RATIOS.items() if name in figures.ratios
    ]
    document.table(("", "ratio"), rows)


def _add_parts(document: TwinPage, figures: PretrainFigures) -> None:
    document.heading("A step of ours as it is written, part by part")
    whole = figures.parts.get(WHOLE)
    rows = [
        (name, 1000 * seconds, seconds / whole if whole else None)
        for name, seconds in figures.parts.items()
    ]
    document.table(("part", "ms", "share"), rows)


def _add_kernels(document: TwinPage, figures: PretrainFigures) -> None:
    if (found := figures.on_device) is None:
        return
    document.heading("A step of ours, kernel by kernel")
    document.paragraph("As the profiler saw them on the GPU; what each is for, by its name.")
    for title, kernels in (("", found.by_kind()), ("The longest", found.kernels[:_KERNELS])):
        rows = [
            (
                kernel.name[:_NAME],
                kernel.count,
                1e6 * kernel.seconds,
                kernel.seconds / found.seconds,
            )
            for kernel in kernels
        ]
        document.table(("", "runs a step", "microseconds", "share"), rows, title)


def _add_band(document: TwinPage, figures: PretrainFigures) -> None:
    if (band := figures.band) is None:
        return
    document.heading("Loss curves of the fast path and of the plain one")
    document.paragraph(
        f"{band.num_steps} steps of {band.about}, {len(band.plain)} seeds each. Plain: as written. "
        f"Fast: {band.how}. The same seeds have the same weights, text and masks, but other "
        "dropout, so the plain path trains each seed twice, with dropout drawn anew. Points are "
        f"means of {WINDOW} steps; the band goes from the least to the greatest of all of the "
        "plain path's runs; what has to lie in it is the mean of the fast path's."
    )
    rows = [(name.replace("_", " "), value) for name, value in band.figures().items()]
    document.table(("", ""), rows)
    series = {
        f"{path}, seed {seed}": [
            ((i + 0.5) * WINDOW, point) for i, point in enumerate(band.smoothed(curve))
        ]
        for path, curves in (
            ("plain", band.plain),
            ("other dropout", band.other_dropout),
            ("fast", band.fast),
            ("peer", band.peer),
        )
        for seed, curve in enumerate(curves)
    }
    document.line_plot("Training loss", series, "step", "loss")


def _add_loader(document: TwinPage, figures: PretrainFigures) -> None:
    if (found := figures.loader) is None:
        return
    document.heading("The loader alone")
    document.paragraph(
        f"Steps of this shape from {found.data}. In a run a thread reads, packs and draws while "
        "the device works; the loop pins what is ready and starts the copy."
    )
    rows = [
        ("read, ms of CPU a step", 1000 * found.read_cpu_seconds),
        ("moved, ms of CPU a step", 1000 * found.move_cpu_seconds),
        ("moved, MB a step", found.bytes / 1e6),
        ("tokens/s", found.positions_per_second),
    ]
    document.table(("", "measured"), rows)


def _add_counts(document: TwinPage, figures: PretrainFigures) -> None:
    document.heading("Operators")
    document.paragraph(
        "What a step dispatches; views and bare allocations touch no element. Launches: kernels "
        "and copies that the profiler sees on a GPU, and the calls of the host that started them. "
        "A compiled or recorded step hides its operators."
    )
    rows = [(s.timed.name, s.operators, s.views, s.launches, s.host_calls) for s in figures.systems]
    document.table(("", "operators", "views", "launches", "host calls"), rows)
    largest = [
        (" x ".join(f"{size:,}" for size in _sizes(of["shape"])), of["type"], of["count"])
        for of in figures.largest[:12]
    ]
    document.table(("shape", "type", "made in a step"), largest, "The largest tensors of ours")


def _sizes(shape: object) -> list[int]:
    assert isinstance(shape, list)
    return shape


def _add_ceilings(document: TwinPage, figures: PretrainFigures) -> None:
    if not figures.ceilings:
        return
    document.heading("Ceilings of this machine")
    found = figures.ceilings
    side = found["matmul_side"]
    rows = [
        (
            f"{kind} product of side {side:,.0f}, TFLOP/s",
            found[f"matmul_{kind}_flops_per_second"] / 1e12,
        )
        for kind in ("bf16", "fp32")
    ]
    rows.append(("copy, read and written, GB/s", found["copy_bytes_per_second"] / 1e9))
    document.table(("", "measured"), rows)


def _add_correct(document: TwinPage, figures: PretrainFigures) -> None:
    if not figures.correct:
        return
    document.heading("Correct")
    document.paragraph(
        "The same weights, text, masks and samples, dropout off: ours as it is timed, the peer in "
        "fp64 on the CPU."
    )
    document.table(("", ""), [(n.replace("_", " "), v) for n, v in figures.correct.items()])


def _add_probes(document: TwinPage, figures: PretrainFigures) -> None:
    if not figures.probes:
        return
    document.heading("Backends and widths alone")
    rows = [
        (
            p.what,
            p.choice,
            p.detail,
            None if p.seconds is None else 1e6 * p.seconds,
            None if p.flops_per_second is None else p.flops_per_second / 1e12,
            p.note,
        )
        for p in figures.probes
    ]
    document.table(("", "choice", "shape", "microseconds", "TFLOP/s", ""), rows)
