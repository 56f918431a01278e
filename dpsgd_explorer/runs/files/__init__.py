"""Files of the installation that nobody else reads, and room kept on the disk."""
