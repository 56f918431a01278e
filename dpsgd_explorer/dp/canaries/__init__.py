"""Canaries: phantom records that every step treats as it treats the real ones.

``canaries`` says what they go through, ``accounting.auditing`` what they prove.
"""
