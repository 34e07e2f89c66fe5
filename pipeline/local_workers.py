"""Worker processes of Beam's local runner, for which it does not wait without limit.

After a step has failed in one worker, another has been seen never to leave, and Beam joins it
without end: what should be an error is a run that hangs. Here it has a minute, then it is killed;
when workers are told to leave, the runner has all of their results, or wants none.
"""

import atexit
import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner.worker_handlers import (
    SubprocessSdkWorkerHandler,
    WorkerHandler,
)
from apache_beam.runners.portability.local_job_service import SubprocessSdkWorker
from apache_beam.transforms.environments import SubprocessSDKEnvironment

GRACE_SECONDS = 60.0


def worker_environment() -> SubprocessSDKEnvironment:
    """Processes of this Python for the local runner; each writes its number where it is found.

    Ctrl-C at a terminal reaches all of them. They leave it to this process, which ends them.
    """
    number = f"echo $$ > {shlex.quote(str(_folder()))}/$WORKER_ID"
    command = f"trap '' INT; {number} && exec {shlex.quote(sys.executable)} -m pipeline.worker"
    return SubprocessSDKEnvironment.from_command_string(command_string=command)


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="electrify-workers-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


class _Worker(SubprocessSdkWorker):
    """Beam's, but how a process ends that was told to leave is no error of its thread."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_leaving = False

    def run(self) -> None:
        """Start the process and wait for its end."""
        try:
            super().run()  # type: ignore[no-untyped-call]
        except RuntimeError:
            if not self.is_leaving:
                raise


@WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class LimitedWorkerHandler(SubprocessSdkWorkerHandler):
    """Beam's handler of worker processes, with a limit to its patience."""

    def start_worker(self) -> None:
        """In a thread that ends with the process."""
        worker = _Worker(
            self._worker_command_line, self.control_address, self.provision_info, self.worker_id
        )
        self.worker = self._own_worker = worker
        self.worker_thread = threading.Thread(name="run_worker", target=worker.run)
        self.worker_thread.start()

    def close(self) -> None:
        """Tell the process to leave, and see that it does."""
        self._own_worker.is_leaving = True
        super().close()

    def stop_worker(self) -> None:
        """Wait for the process, then kill it."""
        path = _folder() / str(self.worker_id)
        self.worker_thread.join(GRACE_SECONDS)
        if self.worker_thread.is_alive():
            with contextlib.suppress(OSError, ValueError):  # it has just left
                os.kill(int(path.read_text(encoding="utf-8")), signal.SIGKILL)
            self.worker_thread.join()
        path.unlink(missing_ok=True)
