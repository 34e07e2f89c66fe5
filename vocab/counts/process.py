"""Counting words in a process of its own, which takes Beam's 150 MB with it when it ends.

Training, in the process that waits meanwhile, then never holds Beam and the counts together.
"""

import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from electrify.system.outcome import STOPPED
from electrify.system.progress import setup_logging
from pipeline.worker import imports_kept
from vocab.pretokenize import WordRules

_REFUSED = 3  # exit status: the last line of the output is the error, as JSON
_PASSED_ON = {error.__name__: error for error in (ValueError, ModuleNotFoundError, OSError)}
# With glibc's arena for each thread, and with mimalloc, memory once used is kept: some 60 MB
_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
_LEFT_OUT = ("pandas", "pymongo", "bson")  # 50 MB and 0.4 s


def count_words_apart(
    documents: Sequence[Path],
    output: Path,
    rules: WordRules,
    runner: str,
    beam_options: Sequence[str] = (),
) -> None:
    """`write_word_counts` in a child process; in this one if Beam is here already.

    Raises what the child raised of `ValueError`, `ModuleNotFoundError` and `OSError`.
    """
    task = (list(documents), output, rules, runner, list(beam_options))
    if "apache_beam" in sys.modules:  # no memory to save, and a second to lose
        _count(*task)
        return
    child = subprocess.run(
        [sys.executable, "-m", "vocab.counts.process"],
        input=pickle.dumps(task),
        stdout=subprocess.PIPE,
        env=os.environ | _ENVIRONMENT,
        check=False,
    )
    if child.returncode == _REFUSED:
        found = json.loads(child.stdout.splitlines()[-1])
        raise _PASSED_ON[found["error"]](*found["arguments"])
    if child.returncode in STOPPED:
        raise KeyboardInterrupt
    if child.returncode:
        raise RuntimeError(
            f"the process that counts words ended with status {child.returncode}; what it said "
            "stands above (-9: the system was out of memory)"
        )


def main() -> int:
    """The child: a pickled task on standard input; the exit status."""
    setup_logging()
    sys.meta_path.insert(0, _LeftOut())
    logging.getLogger("apache_beam").setLevel(logging.ERROR)  # it would remark on what is left out
    try:
        task = pickle.load(sys.stdin.buffer)
        with imports_kept():
            pass
        _count(*task)
    except tuple(_PASSED_ON.values()) as error:
        name = next(name for name, kind in _PASSED_ON.items() if isinstance(error, kind))
        arguments: list[Any] = [str(error)]
        if isinstance(error, OSError) and error.errno is not None:
            arguments = [error.errno, error.strerror, error.filename]
        print(json.dumps({"error": name, "arguments": arguments}), flush=True)
        return _REFUSED
    except KeyboardInterrupt:
        return 130
    return 0


class _LeftOut(MetaPathFinder):
    """Beam and Arrow import these where they are, and do without where they are not."""

    def find_spec(self, name: str, *_: object) -> None:
        if name in _LEFT_OUT:
            raise ModuleNotFoundError(f"{name} is left out here", name=name)


def _count(
    documents: Sequence[Path],
    output: Path,
    rules: WordRules,
    runner: str,
    beam_options: Sequence[str],
) -> None:
    from vocab.counts.beam import write_word_counts

    write_word_counts(documents, output, rules, runner, beam_options)


if __name__ == "__main__":
    sys.exit(main())
