"""The safety check before the first step, and the repair of refused models."""
