"""Worker processes of the local runner, forked from one that has imported Beam once for all."""

import gc
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path


def prepare_workers() -> None:
    """Start the process that forks workers. It imports Beam while this one does other things.

    It has one thread, never talks to a worker, and stays until this process ends. This one has
    threads of Beam, and a fork of it would copy their locks as they are.
    """
    from multiprocessing import forkserver  # some systems have none

    forkserver.set_forkserver_preload(["pipeline.preload"])
    forkserver.ensure_running()


def start_worker(settings: Mapping[str, str]) -> BaseProcess:
    """A process that serves Beam's runner as `settings`, environment variables, tell it."""
    prepare_workers()
    context = multiprocessing.get_context("forkserver")
    arguments = (os.environ | settings, os.getcwd())
    process = context.Process(target=_serve, args=arguments, daemon=True)
    process.start()
    return process


def _serve(environment: Mapping[str, str], folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the runner answers it
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    logging.disable(logging.ERROR)  # the runner raises what matters
    from apache_beam.runners.worker import sdk_worker_main

    from electrify.system.memory import keep_little_memory

    gc.freeze()  # what is imported is no garbage
    gc.enable()
    keep_little_memory()
    with Path(os.devnull).open("w") as nowhere:
        sys.stderr = nowhere  # Beam prints a trace of each error that it hands on
        sdk_worker_main.main(sys.argv)
