"""What was released, and what the accountant was told of it."""
