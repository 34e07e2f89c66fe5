"""The Beam runner of a stage, its worker processes, and their progress.

The runner is always named: Beam's own default downloads a binary at run time (Prism), and its
`multi_threading` mode loses data (`WindowedValueCoderImpl.decode_from_stream` reads a wrong
length), so neither is ever used.
"""

import contextlib
import gc
import io
import logging
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import apache_beam as beam
import apache_beam.pipeline as beam_pipeline
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.worker_handlers import (
    GrpcServer,
    GrpcWorkerHandler,
    WorkerHandler,
)
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]

from electrify.config.fields import runner_name
from electrify.system.machine import keep_little_memory, num_cpus, remember_peak_of
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log, warn

# After a step has failed in one worker process of the local runner, another has been seen never to
# leave, and Beam joins it without end. Here it has a minute, then it is killed: when workers are
# told to leave, the runner has all of their results, or wants none.
GRACE_SECONDS = 60.0
_ABORT_SECONDS = 0.2


class _Options(PipelineOptions):
    """Beam asks for the same few views hundreds of times; each builds a parser of all options."""

    def view_as(self, cls: type[Any]) -> Any:
        views = self.__dict__.setdefault("views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()  # type: ignore[no-untyped-call]
        return {name: value for name, value in state.items() if name != "views"}


@WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class ForkedWorkerHandler(GrpcWorkerHandler):
    """A forked process in place of a command's, with a limit to the patience."""

    _at_work: ClassVar[set[BaseProcess]] = set()

    def __init__(
        self, _command: bytes, state: Any, provision_info: Any, grpc_server: GrpcServer
    ) -> None:
        super().__init__(state, provision_info, grpc_server)
        self._is_leaving = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="watch_worker", daemon=True)

    def start_worker(self) -> None:
        control = self.control_api_service_descriptor()
        options = self.provision_info.provision_info.pipeline_options
        self._process = start_worker(
            {
                "WORKER_ID": self.worker_id,
                "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(control),
                "PIPELINE_OPTIONS": json_format.MessageToJson(options),
            }
        )
        self._at_work.add(self._process)
        self._watcher.start()

    def _watch(self) -> None:
        """Beam would wait without end for a process that is no more, or that never began.

        It asks one worker after the other for its part, so the end of one ends the others.
        """
        self._process.join()
        if self._is_leaving.is_set():
            return
        for process in tuple(self._at_work):  # other threads take theirs out
            with contextlib.suppress(OSError):  # it has just ended, too
                process.kill()
        with contextlib.suppress(Exception):  # of the connection's own end
            self.data_conn.close()
        while not self._is_leaving.wait(_ABORT_SECONDS):
            with contextlib.suppress(Exception):  # Beam asks just now: the next round tells it
                self.control_conn.abort(RuntimeError(_CLOSED))

    def close(self) -> None:
        self._is_leaving.set()
        self._at_work.discard(self._process)
        remember_peak_of(self._process.pid)
        super().close()

    def stop_worker(self) -> None:
        """Wait for the process, then kill it."""
        self._watcher.join(GRACE_SECONDS)
        self._process.kill()
        self._watcher.join()


def prepare_workers() -> None:
    """Start the process that forks workers, as a fork of this one where it has one thread.

    It has one thread, never talks to a worker, and stays until this process ends. This one will
    have threads of Beam, and a fork of it would copy their locks as they are.
    """
    from multiprocessing import forkserver, resource_tracker, util  # some systems have no forks

    # what all workers need, here already or not; the first silences what Beam says of itself
    forkserver.set_forkserver_preload(["electrify.system.progress", "pipeline.clean"])
    resource_tracker.ensure_running()
    may_fork = sys.platform == "linux" and threading.active_count() == 1
    with patch.object(util, "spawnv_passfds", _fork) if may_fork else contextlib.nullcontext():
        forkserver.ensure_running()


def _fork(_: bytes, command: Sequence[Any], kept_files: Sequence[int]) -> int:
    """As `spawnv_passfds`, without a new Python, which would import Beam once more: two seconds."""
    if process_id := os.fork():
        return process_id
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):  # they are answered by this process alone
            signal.signal(number, signal.SIG_DFL)
        first = 3  # others would stay open when this process ends, a lock and the pipe that says so
        for kept in [*sorted(kept_files), os.sysconf("SC_OPEN_MAX")]:
            os.closerange(first, kept)
            first = kept + 1
        exec(command[-1])  # "python -c ..."
    finally:
        os._exit(0)


def start_worker(settings: Mapping[str, str]) -> BaseProcess:
    """A process that serves Beam's runner as `settings`, environment variables, tell it."""
    prepare_workers()
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_serve, args=(os.environ | settings, os.getcwd()), daemon=True)
    process.start()
    return process


def _serve(environment: Mapping[str, str], folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the runner answers it
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    logging.disable(logging.ERROR)  # the runner raises what matters
    from apache_beam.runners.worker import sdk_worker_main

    gc.freeze()  # what is imported is no garbage
    keep_little_memory()
    with Path(os.devnull).open("w") as nowhere:
        sys.stderr = nowhere  # Beam prints a trace of each error that it hands on
        sdk_worker_main.main(sys.argv)


# DirectRunner is Beam's usual name for it; Beam itself would try Prism first under that name
_LOCAL_NAMES = ("local", "DirectRunner", "FnApiRunner")
# Starting workers costs 2 s: Beam is imported once more, in the process that they are forked from.
MULTI_PROCESSING_SECONDS = 15.0
# the last line of a trace: what the system said in a worker, of which Beam passes on the text alone
_SYSTEM_ERROR = re.compile(
    r"^.*Error: \[Errno (\d+)\] (.+?)(?:: '([^'\n]*)')?(?: \[while running .*)?$", re.MULTILINE
)
_USER_ERROR = re.compile(r"UserError: (.+?)(?: \[while running .*)?$", re.MULTILINE)
_DATAFLOW_ERROR = "DataflowRuntimeException"  # no RuntimeError; its module needs apache-beam[gcp]
_CLOSED = "Channel closed prematurely."  # of a local worker that is no more
_NO_CODE = re.compile(
    r"^(?:ModuleNotFoundError|ImportError|AttributeError): .*\b(?:electrify|pipeline|vocab)\b.*$",
    re.MULTILINE,
)


def make_pipeline(
    runner: str, beam_options: Sequence[str], input_bytes: int, seconds_per_megabyte: float = 0.25
) -> beam.Pipeline:
    """A pipeline on the runner of the config, or on the one that `beam_options` name.

    `local` runs in this process, or in one process per core where the work, `input_bytes` times
    `seconds_per_megabyte` of one core, is worth their start. Any other name is handed to Beam.

    Raises `ValueError` for a runner or option that Beam refuses, and for `multi_threading`.
    """
    # in a notebook Beam puts a cell's number into names; what it imports for that fails (pandas 3)
    beam_pipeline.alter_label_if_ipython = lambda step, source: None  # type: ignore[attr-defined]
    # Beam's remarks on options and environments are meant for its developers
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    options, unknown = parse_options(beam_options)
    name = runner_name(options.view_as(StandardOptions).runner or runner)
    if unknown:
        said = f"Beam does not know these options: {', '.join('--' + word for word in unknown)}"
        if name in _LOCAL_NAMES:
            raise UserError(f"{said}. Those of the local runner begin with --direct_")
        warn(f"{said}. They are ignored, unless the job server knows them")
    if name in _LOCAL_NAMES:
        seconds = input_bytes / 1e6 * seconds_per_megabyte
        direct = options.view_as(DirectOptions)
        num_workers = _num_local_workers(direct, beam_options, seconds)
        # an error reaches the caller as an exception; Beam would log its trace beside it
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
        log(f"Beam runner: local, {num_workers} process{'es' if num_workers > 1 else ''}")
        if num_workers > 1:
            prepare_workers()
        # the environment decides; the option would replace it with Beam's noisy one
        direct.direct_running_mode = "in_memory"
        direct.direct_num_workers = num_workers
        environment = SubprocessSDKEnvironment(command_string="") if num_workers > 1 else None
        return beam.Pipeline(FnApiRunner(default_environment=environment), options=options)
    log(f"Beam runner: {name}")
    options.view_as(StandardOptions).runner = name
    try:
        return beam.Pipeline(options=options)
    except (ValueError, ImportError, AttributeError) as error:
        raise UserError(
            f"Beam cannot start the runner {name!r}: {error} "
            "Write beam.runner = local, or the name of a Beam runner"
        ) from error


def is_in_process(pipeline: beam.Pipeline) -> bool:
    """Whether this process alone does the work."""
    direct = pipeline.options.view_as(DirectOptions)
    return isinstance(pipeline.runner, FnApiRunner) and direct.direct_num_workers == 1


def run_pipeline(pipeline: beam.Pipeline) -> None:
    """Run to the end. Ctrl-C arrives as `KeyboardInterrupt`, a worker's `UserError` as it is, and
    what the system refused a worker as `OSError`: Beam hides them in an error of its own, or adds
    the name of a step.

    `UserError` also if a cluster gives a job up.
    """
    try:
        pipeline.run().wait_until_finish()
    except Exception as error:
        kind = type(error).__name__
        is_of_beam = isinstance(error, RuntimeError | UserError) or kind == _DATAFLOW_ERROR
        if is_of_beam and (hidden := _hidden_error(error, pipeline.runner)):
            raise hidden from error
        raise


def _hidden_error(error: Exception, runner: Any) -> BaseException | None:
    """The error that Beam tells of, by its message."""
    said = str(error)
    if said.startswith("KeyboardInterrupt"):
        return KeyboardInterrupt()
    if found := _USER_ERROR.search(f"{type(error).__name__}: {said}"):
        return UserError(found[1])
    if said.endswith(_CLOSED):
        return UserError(
            "a worker process of the local runner ended in the middle of its work; the system "
            "kills the largest when memory runs out. Give the same command with fewer: "
            "-- --direct_num_workers=1"
        )
    is_on_cluster = isinstance(runner, PortableRunner) or "Dataflow" in type(runner).__name__
    if is_on_cluster and (lacking := _NO_CODE.search(said)):
        return UserError(
            f"a worker has no electrify, or another version ({lacking[0]}): install the wheel "
            "of the machine that starts the run on every worker, then give the same command again"
        )
    if errors := _SYSTEM_ERROR.findall(said):
        number, message, path = errors[-1]
        return OSError(int(number), message, path or None)
    if not is_on_cluster:
        return None
    # the end of a worker's trace, or else the first line
    lines = [line for line in said.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    reason = (lines or said.splitlines())[0][:500].rstrip(". ")
    return UserError(
        f"{type(runner).__name__} has given the job up: {reason}. What it said is above and in the "
        "logs of the cluster. Finished work stays; when the cluster is sound, the same command "
        "resumes"
    )


def _num_local_workers(options: DirectOptions, words: Sequence[str], seconds: float) -> int:
    """1 for this process; more as asked for by option, or as the work is worth it."""
    given = {word.partition("=")[0] for word in words}
    mode, count = options.direct_running_mode, options.direct_num_workers
    is_mode_given = "--direct_running_mode" in given
    if mode == "multi_threading":
        raise UserError(
            "--direct_running_mode=multi_threading loses data in Beam's local runner; "
            "use in_memory or multi_processing"
        )
    if is_mode_given and mode == "in_memory":
        return 1
    if "--direct_num_workers" in given:
        if count < 0:
            raise UserError(f"--direct_num_workers={count}: give 1 or more, or 0 for one a core")
        return int(count or num_cpus())  # 0: one a core, as Beam has it
    return num_cpus() if is_mode_given or seconds > MULTI_PROCESSING_SECONDS else 1


def parse_options(beam_options: Sequence[str]) -> tuple[PipelineOptions, list[str]]:
    """Beam's options, and the names of those that it does not know; `ValueError` if it refuses."""
    words = [word for word in beam_options if word != "--"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):  # argparse prints its usage, 150 lines of it
            options = _Options(words)
            known = options.get_all_options()
            given = options.get_all_options(retain_unknown_options=True)
    except SystemExit:
        reason = said.getvalue().strip().rpartition("error: ")[2]
        raise UserError(f"Beam refuses the options {' '.join(words)!r}: {reason}") from None
    return options, sorted(given.keys() - known.keys())


Done = Callable[[Collection[str]], float]  # from the names of files that are there: MB done


@contextmanager
def watch(
    label: str,
    amounts: Mapping[str, float],
    list_names: Callable[[], Collection[str]],
    poll_seconds: float,
    done: Done | None = None,
    unit: str = "MB",
) -> Iterator[None]:
    """Show how much is done of work that other processes do, by the files that they leave.

    `amounts` of work are done when the file of that name is there, or as `done` says.
    """
    stop = threading.Event()

    def of_names(names: Collection[str]) -> float:
        return sum(amounts[name] for name in names if name in amounts)

    def follow() -> None:
        with Progress(label, round(sum(amounts.values())), unit) as progress:
            is_last = False
            while not is_last:
                is_last, started = stop.is_set(), time.monotonic()
                with contextlib.suppress(Exception):  # of a file system: the work meets it, too
                    now = round((done or of_names)(list_names()))
                    progress.update(max(0, now - progress.done))
                # of many files a look takes long
                stop.wait(max(poll_seconds, min(60.0, 20 * (time.monotonic() - started))))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
