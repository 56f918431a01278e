"""How a run of the site computes on a CPU: threads, and faster operations."""
