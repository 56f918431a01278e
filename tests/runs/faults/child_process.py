"""The process of one run, slowed down so that a fault strikes a short run midway.

It stores checkpoints often, loads torch for no run that needs none, keeps its priority
and computes nothing ahead: so each test takes little time on a busy machine too.
"""

import math
import sys
import time

from dpsgd_explorer.runs.worker import child, limits

EVENT_SECONDS = 0.04
child.CHECKPOINT_SECONDS = 0.1
child.CHECKPOINT_SHARE = 1.0
child.IDLE_MIB = math.inf
child._load = lambda settings, parent_watch: None
limits.NICENESS = 0
limits.Precedence.tend = lambda self: time.sleep(EVENT_SECONDS)  # called at each event
sys.exit(child.main(sys.argv[1:]))
