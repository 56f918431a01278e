"""The command ``worker`` with short leases and, if so told, a wrong clock.

Run as ``python -m tests.runs.faults.worker_process LEASE OFFSET``, both in seconds.
"""

import sys
import time

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.runs.worker import consumer, forked_process

lease_s, offset_s = map(float, sys.argv[1:])
forked_process.ForkServer.program = ("-m", "tests.runs.faults.child_process")
consumer.Consumer.__init__.__kwdefaults__["lease_s"] = lease_s
if offset_s:
    clock = time.time
    time.time = lambda: clock() + offset_s
sys.exit(main(["worker"]))
