"""The table of runs: leases, admission, events, the fair queue."""
