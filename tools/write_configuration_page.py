"""Write docs/configuration.md from the settings themselves.

Run as ``python -m tools.write_configuration_page``.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from dpsgd_explorer import settings
from dpsgd_explorer.experiments import engines_config, regression_config
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.training_config import (
    DEFAULT_EPSILON,
    DEFAULT_STEPS,
    TrainingConfig,
)
from dpsgd_explorer.experiments.vocabulary import SETTINGS
from dpsgd_explorer.quotas import NO_LIMIT, QUOTAS, Quotas, variable

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
DOMAIN = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
HEAD = """# Configuration

This page is written by `python -m tools.write_configuration_page`.

A run has a `kind`; each kind has settings of its own, and without one `training` is
meant. Whatever is refused is refused by name, with the rule and what came.

## Settings of a training

The names are the same in JSON, in the query string of `/train/`, in the command line's
file and in Python. `{{}}` is the default run. Of `steps` and `epochs`, and of
`target_epsilon` and `noise_multiplier`, one is given; with none given `steps` is
{steps} and `target_epsilon` is {epsilon:g}.

"""
REGRESSION = """
## Settings of a regression

Noisy gradient descent on California housing, as `/labs/linear-regression/` launches it.
Of `noise_multiplier`, `steps` and `target_epsilon` two are given and the third follows;
what is missing is filled in by `target_epsilon` = {epsilon:g}, then by
`noise_multiplier` = {noise:g}.

"""
ENGINES = """
## Settings of a comparison of the engines

Kind `engines`, as `/labs/engines/` launches it: random inputs, no data set. A step may
need {most:.0e} multiply-adds; `width` is a multiple of 4.

"""
TABLE = """| setting | symbol | unit | default | allowed | meaning |
|---|---|---|---|---|---|
"""
MIDDLE = """
## Environment

Read at start, in one place (`dpsgd_explorer/settings.py`).

| variable | default | meaning |
|---|---|---|
"""
QUOTA_HEAD = """
## Quotas

What a visitor (a cookie) and a network (all addresses that share the first 24 bits of
an IPv4 or 64 bits of an IPv6 address) may ask for. Each is set by its variable; `none`
is no limit. Behind a proxy that does not pass the visitors' addresses on, all of them
come from one network.

| variable | `local` | `public` | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Return the text of docs/configuration.md."""
    return (
        HEAD.format(steps=DEFAULT_STEPS, epsilon=DEFAULT_EPSILON)
        + _settings(TrainingConfig)
        + REGRESSION.format(
            epsilon=regression_config.DEFAULT_EPSILON,
            noise=regression_config.DEFAULT_NOISE,
        )
        + _settings(RegressionConfig)
        + ENGINES.format(most=engines_config.MOST_A_STEP)
        + _settings(EnginesConfig)
        + MIDDLE
        + "\n".join(_variable_rows())
        + "\n"
        + QUOTA_HEAD
        + "\n".join(_quota_rows())
        + "\n"
    )


def _settings(config: type[RunConfig]) -> str:
    """Return the table of a kind's settings."""
    fields = config.model_json_schema()["properties"]
    rows = [_setting_row(config, name, field) for name, field in fields.items()]
    return TABLE + "\n".join(rows) + "\n"


def _setting_row(config: type[RunConfig], name: str, field: dict[str, Any]) -> str:
    default = field.get("default")
    shown = "" if default is None else f"`{default}`".replace("True", "true")
    meaning = field.get("description", f"What is run: a {default}.")
    allowed = _domain(config, name, field)
    unit = SETTINGS[name].unit if name in SETTINGS else ""
    return (
        f"| `{name}` | {field.get('symbol', '')} | {unit} | {shown} | {allowed} "
        f"| {field.get('title', name)}. {meaning} |"
    )


def _domain(config: type[RunConfig], name: str, field: dict[str, Any]) -> str:
    if "choices" in field:
        return ", ".join(f"`{choice}`" for choice in field["choices"])
    metadata = config.model_fields[name].metadata
    limits = [
        f"{word} {_plain(getattr(each, key))}"
        for each in metadata
        for key, word in DOMAIN.items()
        if hasattr(each, key)
    ]
    if limits:
        return ", ".join(limits)
    if "const" in field:
        return f"`{field['const']}`"
    return str(field.get("domain", "true, false"))


def _plain(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _variable_rows() -> list[str]:
    rows = re.findall(r"^\| ``.*\|$", settings.__doc__ or "", flags=re.MULTILINE)
    return [row.replace("``", "`") for row in rows]


def _quota_rows() -> list[str]:
    return [
        f"| `{variable(each.name)}` | {_limits(each.name)} "
        f"| {each.metadata['meaning']} |"
        for each in fields(Quotas)
    ]


def _limits(name: str) -> str:
    """Return what each profile has, the local one first."""
    values = (getattr(quotas, name) for quotas in QUOTAS.values())
    return " | ".join(f"`{_as_text(value)}`" for value in values)


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value) or NO_LIMIT
    return NO_LIMIT if value is None else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
