"""`python -m electrify`: the same as the `electrify` command."""

import sys

from electrify.cli import main

if __name__ == "__main__":
    sys.exit(main())
