"""Test accuracy at a published ε, with new seeds, and the published value."""
