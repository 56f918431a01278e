"""Calls of functions that take only keywords, with their values in a row."""

import inspect


def in_order(function, *values, **options):
    """Call a function with the values of its first parameters, in their order."""
    names = [*inspect.signature(function).parameters][: len(values)]
    return function(**dict(zip(names, values, strict=True)), **options)
