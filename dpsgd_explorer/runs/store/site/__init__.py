"""What the database holds about the site, and about no run alone."""
