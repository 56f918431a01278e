"""Tests of a privacy promise from outside: attacks on models, and checks of receipts.

`dpsgd_explorer.accounting.auditing` computes lower bounds on ε from the scores of
canaries; `dpsgd_explorer.dp.canaries` adds the canaries to a run.
"""
