"""Handling of every request and response: headers, compression, errors, visitors."""
