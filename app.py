"""WSGI entry point: ``app`` for any WSGI server.

``python -m dpsgd_explorer serve`` starts this and the worker.
"""

from dpsgd_explorer.web import create_app

app = create_app()
