"""A worker process of the local runner: Beam's own, without its remarks at every start."""

import gc
import logging
import sys


def main() -> None:
    """Serve the runner that started this process until it is done."""
    logging.disable(logging.WARNING)  # before Beam is imported: it warns while it is
    # What is imported is no garbage: looking for it takes a fifth of the time of the imports, and
    # at the end of the process a quarter of a second again.
    gc.disable()
    from apache_beam.runners.worker import sdk_worker_main

    from electrify.system.memory import keep_little_memory

    gc.freeze()
    gc.enable()
    keep_little_memory()
    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
