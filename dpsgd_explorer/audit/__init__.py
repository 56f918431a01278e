"""Tests of a privacy promise from outside: attacks, planted bugs, receipts checked.

What the scores of an audit prove is computed in `dpsgd_explorer.accounting.auditing`;
the canaries that ride along in a run are in `dpsgd_explorer.dp.canaries`.
"""
