"""The command ``worker`` with short leases, few spares and, if so told, a wrong clock.

Run as ``python -m tests.runs.faults.worker_process LEASE OFFSET``, both in seconds.
"""

import sys
import time

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.runs.worker import consumer, process_pool

lease_s, offset_s = map(float, sys.argv[1:])
process_pool.LEAST_SPARES = 1  # each takes seconds of the processor
process_pool.TrainingProcess.program = ("-m", "tests.runs.faults.child_process")
consumer.Consumer.__init__.__kwdefaults__["lease_s"] = lease_s
if offset_s:
    clock = time.time
    time.time = lambda: clock() + offset_s
sys.exit(main(["worker"]))
