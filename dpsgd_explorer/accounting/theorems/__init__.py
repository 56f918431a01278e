"""Accountants that are theorems: composition, zCDP, Gaussian privacy."""
