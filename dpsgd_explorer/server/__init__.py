"""Processes of the site: supervisor, web server and nginx."""
