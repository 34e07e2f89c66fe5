"""`python -m tests.golden DIR`: compare our metrics with the official scorers' golden vectors."""

import sys
from pathlib import Path

from tests.golden.check import check_metrics

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.golden DIR")
    sys.exit(check_metrics(Path(sys.argv[1])))
