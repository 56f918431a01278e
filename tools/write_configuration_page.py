"""Write docs/configuration.md from the settings themselves.

Run as ``python -m tools.write_configuration_page``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dpsgd_explorer import settings
from dpsgd_explorer.settings import QUOTAS
from dpsgd_explorer.training.config import (
    DEFAULT_EPSILON,
    DEFAULT_STEPS,
    TrainingConfig,
)

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
DOMAIN = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
HEAD = """# Configuration

This page is written by `python -m tools.write_configuration_page`.

## Settings of a run

The names are the same in JSON, in the query string of `/train/`, in the command line's
file and in Python. `{{}}` is the default run. Of `steps` and `epochs`, and of
`target_epsilon` and `noise_multiplier`, one is given; with none given `steps` is
{steps} and `target_epsilon` is {epsilon:g}. Whatever is refused is refused by name,
with the rule and what came.

| setting | symbol | default | allowed | meaning |
|---|---|---|---|---|
"""
MIDDLE = """
## Environment

Read at start, in one place (`dpsgd_explorer/settings.py`).

| variable | default | meaning |
|---|---|---|
"""
PROFILES = """
## Profiles

| profile | running | queued | launches a day | queued in all |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the text of docs/configuration.md."""
    fields = TrainingConfig.model_json_schema()["properties"]
    rows = [_setting_row(name, field) for name, field in fields.items()]
    return (
        HEAD.format(steps=DEFAULT_STEPS, epsilon=DEFAULT_EPSILON)
        + "\n".join(rows)
        + "\n"
        + MIDDLE
        + "\n".join(_variable_rows())
        + "\n"
        + PROFILES
        + "\n".join(_profile_rows())
        + "\n"
    )


def _setting_row(name: str, field: dict[str, Any]) -> str:
    default = field.get("default")
    shown = "" if default is None else f"`{default}`".replace("True", "true")
    meaning = field.get("description", "What is run: a training.")
    return (
        f"| `{name}` | {field.get('symbol', '')} | {shown} | {_domain(name, field)} "
        f"| {field.get('title', name)}. {meaning} |"
    )


def _domain(name: str, field: dict[str, Any]) -> str:
    if "choices" in field:
        return ", ".join(f"`{choice}`" for choice in field["choices"])
    metadata = TrainingConfig.model_fields[name].metadata
    limits = [
        f"{word} {_plain(getattr(each, key))}"
        for each in metadata
        for key, word in DOMAIN.items()
        if hasattr(each, key)
    ]
    if limits:
        return ", ".join(limits)
    return f"`{field['const']}`" if "const" in field else "true, false"


def _plain(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _variable_rows() -> list[str]:
    rows = re.findall(r"^\| ``.*\|$", settings.__doc__ or "", flags=re.MULTILINE)
    return [row.replace("``", "`") for row in rows]


def _profile_rows() -> list[str]:
    return [
        f"| `{name}` | {_limit(q.running)} | {_limit(q.queued)} "
        f"| {_limit(q.launches_a_day)} | {q.queued_in_all} |"
        for name, q in QUOTAS.items()
    ]


def _limit(value: int | None) -> str:
    return "no limit" if value is None else f"{value} a visitor"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
