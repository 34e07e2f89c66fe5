"""A worker process of the local runner: Beam's own, without its remarks at every start."""

import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def main() -> None:
    """Serve the runner that started this process until it is done."""
    logging.disable(logging.WARNING)  # before Beam is imported: it warns while it is
    with imports_kept():
        from apache_beam.runners.worker import sdk_worker_main

        from electrify.system.memory import keep_little_memory

        keep_little_memory()
    sdk_worker_main.main(sys.argv)


@contextmanager
def imports_kept() -> Iterator[None]:
    """For the imports of a process, which are no garbage: looking for it takes a fifth of their
    time, and at the end of the process a quarter of a second again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


if __name__ == "__main__":
    main()
