"""Canaries: artificial records that take part in every step, to audit a run.

``canaries`` draws, clips and noises them with the classes that process real records;
``accounting.auditing`` computes the lower bound on epsilon that their scores prove.
"""
