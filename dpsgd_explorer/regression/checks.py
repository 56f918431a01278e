"""Domains of the arguments of this package, checked in one place.

Every failed check raises a ConfigError that names the argument, the rule, the value and
the remedy; rows are counted from 1.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpsgd_explorer import validation
from dpsgd_explorer.accounting import NeighboringRelation
from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.errors import ConfigError

Array = NDArray[np.float64]

RELATIONS = tuple(NeighboringRelation)
VARIANTS = ("tight", "notebook")
MAX_REPETITIONS = 100_000
#: Largest bound or factor: the product of four such numbers is finite.
MAX_NUMBER = 1e50


def table(features: object, labels: object) -> tuple[Array, Array]:
    """Returns the features [n, d] and the labels [n] as finite float64.

    Raises:
        ConfigError: wrong shapes, no rows, no columns, or a value that is missing or
            not finite (its row is named).
    """
    x, y = _numbers("X", features), _numbers("y", labels)
    if x.ndim != 2 or 0 in x.shape:
        refuse("X", f"X must be a table [n, d] of at least 1 by 1, got {x.shape}.")
    if y.shape != x.shape[:1]:
        refuse("y", f"y must have one label per row, [{len(x)}], got {y.shape}.")
    for name, bad in (("X", ~np.isfinite(x).all(axis=1)), ("y", ~np.isfinite(y))):
        if bad.any():
            row = int(np.argmax(bad)) + 1
            refuse(
                name,
                f"{name} must be finite everywhere; row {row} is not. Remove the row, "
                "or fill the gap with a value that does not depend on other rows.",
            )
    return x, y


def positive(name: str, value: object) -> float:
    """Returns a number above 0 and at most MAX_NUMBER."""
    number = validation.finite(name, value)
    if number <= 0:
        refuse(name, f"{name} must be greater than 0, got {validation.shown(value)}.")
    return _with_products(name, number)


def at_least_zero(name: str, value: object) -> float:
    """Returns a number from 0 to MAX_NUMBER."""
    number = validation.finite(name, value)
    if number < 0:
        refuse(
            name,
            f"{name} must be finite and not below 0, got {validation.shown(value)}.",
        )
    return _with_products(name, number)


def _with_products(name: str, number: float) -> float:
    if number > MAX_NUMBER:
        refuse(
            name,
            f"{name} must be at most {MAX_NUMBER:g}, got {number:g}. Divide the data "
            "by a public constant.",
        )
    return number


def delta(value: object, records: int) -> float:
    """Returns a delta below 1/n, for n records.

    Raises:
        AccountingError: delta is outside (0, 1).
        ConfigError: delta is 1/n or more, which would allow publishing a whole record.
    """
    number = domains.delta(value)
    if number >= 1 / records:
        refuse(
            "delta",
            f"delta must be below 1/n = 1/{records}, got {number:g}: publishing one "
            "whole row would be within it. Take a smaller delta, such as "
            f"{10 ** -math.ceil(math.log10(records) + 1):g}.",
        )
    return number


def rate(value: object) -> float | str | None:
    """Returns a learning rate as a number above 0; a name or None unchanged."""
    if value is None or isinstance(value, str):
        return value
    return positive("learning_rate", value)


def whole(name: str, value: object, most: int) -> int:
    """Returns a whole number from 1 to ``most``."""
    return validation.whole(name, value, 1, most)


def repetitions(value: object) -> int:
    """Returns the number of releases; None means one."""
    return 1 if value is None else whole("repetitions", value, MAX_REPETITIONS)


def generator(rng: Any) -> Any:
    """Returns a generator of normal numbers; None means a new one."""
    if rng is None:
        return np.random.default_rng()
    if not callable(getattr(rng, "standard_normal", None)):
        refuse(
            "rng",
            f"rng must be a numpy Generator, got {rng!r}. Pass "
            "numpy.random.default_rng(seed).",
        )
    return rng


def refuse(name: str, message: str) -> NoReturn:
    """Raises ConfigError about an argument."""
    raise ConfigError(name, message)


def _numbers(name: str, values: Any) -> Array:
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        refuse(
            name,
            f"{name} must have a value in every cell, got a masked array with missing "
            "values. Remove those rows, or fill the gaps with a value that does not "
            "depend on other rows.",
        )
    if getattr(getattr(values, "dtype", None), "kind", "") == "c":
        refuse(
            name,
            f"{name} must contain real numbers, got complex numbers. Did you mean "
            f"{name}.real?",
        )
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        refuse(
            name,
            f"{name} must contain only numbers. Encode each category as a column of 0 "
            "and 1.",
        )
