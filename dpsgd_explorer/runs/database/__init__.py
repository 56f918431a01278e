"""Connections to SQLite and PostgreSQL, and the versions of their tables."""
