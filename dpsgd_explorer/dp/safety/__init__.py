"""The check before the first step, and the repairs it suggests."""
