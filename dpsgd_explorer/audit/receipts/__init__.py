"""Verification of receipts: every figure that follows from others is recomputed.

``verification.verify_receipt`` needs neither torch nor the data nor a network.
"""
