"""Store, queue, worker and feed of runs.

The ``runs`` table is the only source of truth: the queue merely wakes workers.  A
worker must claim a run, and each of its writes carries the fence number of the claim.
"""
