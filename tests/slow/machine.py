"""`electrify` that sends unfinished work at once: python -m tests.slow.machine WORD..."""

import runpy
import sys

import electrify.stage.remote

if __name__ == "__main__":
    sys.argv[0] = "electrify"
    electrify.stage.remote.PARTIAL_SECONDS = 0.0
    runpy.run_module("electrify", run_name="__main__")
