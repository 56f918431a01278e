"""Training loops in plain PyTorch with one planted bug each, and an honest one.

``catalogue`` lists the loops.  ``trial`` audits each loop, and runs the safety check of
``PrivacyEngine`` on it.  The tests of the library plant bugs in the engine itself.
"""
