"""Waiting times of a site's visitors: for answers, points, pictures and pages."""
