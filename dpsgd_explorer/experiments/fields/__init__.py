"""One setting: its description, the field made of it, and what a refusal says."""
