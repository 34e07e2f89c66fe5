"""`electrify` as on a machine of its own: python -m tests.slow.machine NAME WORD...

Processes of one machine see whether the holder of a lock lives; those of two do not, so this one
goes by another name. Locks are given up for lost, and unfinished work is sent, sooner than in
earnest.
"""

import runpy
import sys

import electrify.stage.push
import electrify.storage.lock

SILENCE_SECONDS = 75.0

if __name__ == "__main__":
    name, sys.argv = sys.argv[1], ["electrify", *sys.argv[2:]]
    electrify.storage.lock.machine = lambda: name
    electrify.storage.lock.SILENCE_SECONDS = SILENCE_SECONDS
    electrify.storage.lock.RENEW_SECONDS = 4.0
    electrify.stage.push.PARTIAL_SECONDS = 0.0
    runpy.run_module("electrify", run_name="__main__")
