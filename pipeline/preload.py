"""What every worker of the local runner needs: pipeline/runner.py forks workers from here."""

import gc
import logging

logging.disable(logging.WARNING)  # before Beam is imported: it warns while it is
# What is imported is no garbage, and looking for it takes a fifth of the time of the imports. The
# process that forks makes nothing else; each worker enables it again.
gc.disable()

from apache_beam.runners.worker import sdk_worker_main  # noqa: E402, F401

import pipeline.clean  # noqa: E402, F401
from pipeline.dedup.minhash import tables  # noqa: E402

tables()  # a third of a second in each worker
