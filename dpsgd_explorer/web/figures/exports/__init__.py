"""Drawings that leave the site: the charts of a report, the share card."""
