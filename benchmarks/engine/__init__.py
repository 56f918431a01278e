"""Overhead of an engine per step: checks, noise, calls."""
