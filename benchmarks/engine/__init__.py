"""What an engine adds to a step: checks, noise, calls."""
