"""Store, queue, worker and feed of runs.

The ``runs`` table is the truth: the queue only carries a doorbell, a worker must
claim a run, and whatever it writes carries the fence number of its claim.
"""
