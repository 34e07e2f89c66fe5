"""What is lost, and what is silently wrong, when runs are killed and files are damaged.

python -m benchmarks.torture kill --rounds 50
python -m benchmarks.torture corrupt --rounds 200
python -m benchmarks.torture disk
python -m benchmarks.torture fuzz --executions 1000000
python -m benchmarks.torture gs --faults 0.1
python -m benchmarks.torture memory --data-dir ../shared/data/corpora --limit-mb 1500
python -m benchmarks.torture soak --steps 20000
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.torture.fuzz import torture_by_fuzz
from benchmarks.torture.kill import torture_by_kills
from electrify.stage.folder import write_json
from electrify.system.progress import setup_logging


def main(arguments: Sequence[str] | None = None) -> int:
    """Torture; the exit status: 0 no fault, 1 faults, which are printed."""
    parsed = _parser().parse_args(arguments)
    setup_logging()
    try:
        faults: list[str] = parsed.torture(parsed)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join([f"{len(faults)} faults", *faults]))
    return 1 if faults else 0


def _kill(parsed: argparse.Namespace) -> list[str]:
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(parsed.work or scratch) / "kill"
        figures = torture_by_kills(parsed.rounds, parsed.seed, work)
    for name, number in sorted(figures.signals.items()):
        print(f"{name}: {number}")
    print(
        f"{figures.num_signals} signals, {figures.num_starts} starts, {figures.num_runs} runs to "
        f"the end, {sum(figures.caught_writing.values())} times in the middle of a file, "
        f"{figures.seconds:.0f} s"
    )
    _write(parsed, figures.as_json())
    return figures.faults


def _corrupt(parsed: argparse.Namespace) -> list[str]:
    from benchmarks.torture.corrupt import torture_by_damage

    with tempfile.TemporaryDirectory() as scratch:
        figures = torture_by_damage(
            parsed.rounds, parsed.seed, Path(parsed.work or scratch) / "corrupt"
        )
    for name, number in sorted(figures.outcomes.items()):
        print(f"{name}: {number}")
    print(f"{sum(figures.outcomes.values())} files damaged, {figures.seconds:.0f} s")
    _write(parsed, figures.as_json())
    return figures.faults


def _soak(parsed: argparse.Namespace) -> list[str]:
    from benchmarks.torture.soak import torture_by_soak

    with tempfile.TemporaryDirectory() as scratch:
        figures = torture_by_soak(parsed.steps, Path(parsed.work or scratch) / "soak")
    value = figures.as_json()
    print(
        f"{parsed.steps:,} steps, {figures.seconds:.0f} s; by quarter: resident MB "
        f"{value['resident_mb']}, open files {value['open_files']}"
    )
    _write(parsed, value)
    return figures.faults


def _fuzz(parsed: argparse.Namespace) -> list[str]:
    figures = torture_by_fuzz(parsed.executions, parsed.seed, parsed.target)
    for name, target in figures.targets.items():
        outcomes = ", ".join(f"{count:,} {word}" for word, count in target["outcomes"].items())
        print(
            f"{name}: {target['executions']:,} executions, {target['seconds']:.1f} s, "
            f"slowest {target['slowest_seconds']:.3f} s, {target['ways']} ways: {outcomes}"
        )
    print(
        f"{figures.executions:,} executions of {len(figures.targets)} targets, "
        f"{figures.seconds:.0f} s"
    )
    _write(parsed, figures.as_json())
    return figures.faults


def _gs(parsed: argparse.Namespace) -> list[str]:
    from benchmarks.torture.gs import torture_by_faults

    with tempfile.TemporaryDirectory() as scratch:
        work = Path(parsed.work or scratch) / "gs"
        figures = torture_by_faults(parsed.share, parsed.kills, parsed.seed, work)
    for name, number in sorted(figures.injected.items()):
        print(f"{name}: {number}")
    print(
        f"{sum(figures.requests.values()):,} requests, {sum(figures.injected.values())} with a "
        f"fault, {figures.asked_again} asked again, {figures.own_retries} of them not by gcsfs; "
        f"{figures.megabytes_sent:.1f} MB sent for {figures.megabytes_kept:.1f} MB kept; "
        f"{len(figures.kills)} kills ({'; '.join(figures.kills)}), {figures.num_starts} starts, "
        f"{figures.seconds:.0f} s, a run on a disk {figures.local_seconds:.0f} s"
    )
    _write(parsed, figures.as_json())
    return figures.faults


def _memory(parsed: argparse.Namespace) -> list[str]:
    from benchmarks.torture.memory import torture_by_limit

    with tempfile.TemporaryDirectory() as scratch:
        work = Path(parsed.work or scratch) / "memory"
        figures = torture_by_limit(Path(parsed.data_dir), parsed.limit_mb, parsed.line_bytes, work)
    counts = ", ".join(f"{number:,} {name}" for name, number in figures.counts.items())
    print(f"{figures.num_files} files under {figures.limit_mb:,} MB of addresses: {counts}")
    for name, cost in figures.costs.items():
        print(
            f"{name}: {cost.num_processes} processes, {cost.seconds:.0f} s; the largest had "
            f"{cost.resident_mb:,.0f} MB resident, {cost.addresses_mb:,.0f} MB of addresses; "
            f"all of them at once {cost.all_resident_mb:,.0f} MB resident"
        )
    _write(parsed, figures.as_json())
    return figures.faults


def _disk(parsed: argparse.Namespace) -> list[str]:
    from benchmarks.torture.disk import torture_by_disk

    with tempfile.TemporaryDirectory() as scratch:
        work = Path(parsed.work or scratch) / "disk"
        figures = torture_by_disk(parsed.rounds, parsed.seed, work, parsed.way)
    for way, said in figures.examples.items():
        print(f"{way}: {said}")
    print(
        f"{sum(figures.points.values())} points of failure, {figures.too_late} too late, "
        f"{figures.seconds:.0f} s"
    )
    _write(parsed, figures.as_json())
    return figures.faults


def _write(parsed: argparse.Namespace, value: object) -> None:
    if parsed.json:
        write_json(Path(parsed.json), value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.torture", description=(__doc__ or "").splitlines()[0]
    )
    ways = parser.add_subparsers(required=True)
    kill = ways.add_parser("kill", help="kill a run at random moments and go on, again and again")
    kill.add_argument("--rounds", type=int, default=50, help="signals to send (50)")
    kill.set_defaults(torture=_kill)
    corrupt = ways.add_parser("corrupt", help="damage a file and run what reads it")
    corrupt.add_argument("--rounds", type=int, default=200, help="files to damage (200)")
    corrupt.set_defaults(torture=_corrupt)
    fuzz = ways.add_parser("fuzz", help="feed every reader with mutated files")
    fuzz.add_argument("--executions", type=int, default=1_000_000, help="in all (1,000,000)")
    fuzz.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="NAME",
        help="only this reader; may be given several times",
    )
    fuzz.add_argument("--seed", type=int, default=0)
    fuzz.add_argument("--json", metavar="PATH", help="write the figures to this file")
    fuzz.set_defaults(torture=_fuzz)
    gs = ways.add_parser("gs", help="a run at gs:// on a storage that fails, killed now and then")
    gs.add_argument(
        "--faults",
        type=float,
        default=0.1,
        dest="share",
        metavar="SHARE",
        help="of the requests (0.1)",
    )
    gs.add_argument("--kills", type=int, default=5, help="machines to kill (5)")
    gs.set_defaults(torture=_gs)
    soak = ways.add_parser("soak", help="train many tiny steps and watch memory and open files")
    soak.add_argument("--steps", type=int, default=20_000, help="to train (20,000)")
    soak.set_defaults(torture=_soak)
    memory = ways.add_parser("memory", help="clean corpora under a limit of memory")
    memory.add_argument(
        "--data-dir", required=True, metavar="DIR", help="with <language>/*.jsonl[.gz]"
    )
    memory.add_argument("--limit-mb", type=int, default=1500, help="of each process (1500)")
    memory.add_argument(
        "--line-bytes",
        type=int,
        default=1_000_000_000,
        help="of a line to be read past (10^9; 0: none)",
    )
    memory.set_defaults(torture=_memory)
    disk = ways.add_parser("disk", help="a disk that is full, read-only, or lets nobody write")
    disk.add_argument("--rounds", type=int, default=1, help="of 22 points of failure (1)")
    disk.add_argument(
        "--way",
        action="append",
        default=[],
        metavar="NAME",
        help="full, read-only, rights, between; may be repeated (all)",
    )
    disk.set_defaults(torture=_disk)
    for way in (kill, corrupt, gs, soak, memory, disk):
        way.add_argument("--seed", type=int, default=0)
        way.add_argument("--work", metavar="DIR", help="keep the runs there (default: nowhere)")
        way.add_argument("--json", metavar="PATH", help="write the figures to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
