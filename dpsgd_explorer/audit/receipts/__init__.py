"""The check of a receipt against itself: every figure that follows from others.

``verification.verify_receipt`` is the check; no torch, no data, no network is needed.
"""
