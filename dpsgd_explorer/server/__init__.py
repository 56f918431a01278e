"""The processes that serve: supervisor and web server."""
