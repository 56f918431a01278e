"""How long a visitor of the site waits: for answers, points, pictures and pages."""
