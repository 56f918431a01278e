"""Classes: secret links, pages, routes and the roster."""
