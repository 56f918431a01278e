"""Alembic's revisions, the oldest first; each is frozen once it is released."""
