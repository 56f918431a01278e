"""SVG files for use outside the site: report charts, share card, site preview."""
