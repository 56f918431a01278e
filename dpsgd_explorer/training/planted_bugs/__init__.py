"""Training loops in plain PyTorch with one planted bug each, and an honest one.

``catalogue`` lists them, ``trial`` puts each to an audit and to the safety check of
``PrivacyEngine``.  Bugs planted in this package's own engine are in its tests.
"""
