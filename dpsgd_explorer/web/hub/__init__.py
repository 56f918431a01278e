"""The Learning Hub by feature."""
