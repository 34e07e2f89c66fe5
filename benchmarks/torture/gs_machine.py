"""`electrify` as on a machine of its own: python -m benchmarks.torture.gs_machine NAME WORD...

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
    electrify.remote_lock.machine = lambda: name
    electrify.remote_lock.SILENCE_SECONDS = SILENCE_SECONDS
    electrify.remote_lock.RENEW_SECONDS = 4.0
    electrify.remote_send.PARTIAL_SECONDS = 0.0
    runpy.run_module("electrify", run_name="__main__")
