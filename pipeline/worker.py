"""Worker processes of the local runner, forked from one that has imported Beam once for all."""

import gc
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing.process import BaseProcess

# The process that forks has one thread and never talks to a worker: the one that starts a run has
# threads of Beam, and a fork would copy their locks as they are.
_CONTEXT = multiprocessing.get_context("forkserver")


def start_worker(settings: Mapping[str, str]) -> BaseProcess:
    """A process that serves Beam's runner as `settings`, environment variables, tell it."""
    _CONTEXT.set_forkserver_preload(["pipeline.preload"])
    arguments = (os.environ | settings, os.getcwd())
    process = _CONTEXT.Process(target=_serve, args=arguments, daemon=True)
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
    sdk_worker_main.main(sys.argv)
