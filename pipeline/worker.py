"""A worker process of the local runner: Beam's own, without its remarks at every start."""

import logging
import sys


def main() -> None:
    """Serve the runner that started this process until it is done."""
    logging.disable(logging.WARNING)  # before Beam is imported: it warns while it is
    from apache_beam.runners.worker import sdk_worker_main

    from pipeline.memory import keep_little_memory

    keep_little_memory()
    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
