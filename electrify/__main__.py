"""`python -m electrify`: the same as the `electrify` command."""

import sys
from pathlib import Path

# `python -m` looks for modules in the working directory first: a model.py there is not ours
if sys.path[0] in ("", str(Path.cwd())) and Path.cwd() != Path(__file__).parent.parent:
    del sys.path[0]

from electrify.cli import main

if __name__ == "__main__":
    sys.exit(main())
