"""`python -m tests.golden DIR`: compare our metrics with the official scorers' golden vectors."""

import sys
from pathlib import Path

from electrify.system.outcome import status_of
from tests.golden.check import check_metrics

if __name__ == "__main__":
    folders = [Path(word) for word in sys.argv[1:]]
    if len(folders) != 1:
        sys.exit("usage: python -m tests.golden DIR")
    sys.exit(status_of(lambda: check_metrics(folders[0])))
