"""Computation of the site's runs on CPUs: threads, and faster operations."""
