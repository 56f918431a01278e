"""Write the tables of docs/reference/configuration.md from the settings.

Run as ``python -m tools.write_configuration_page``.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from dpsgd_explorer import settings
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.kinds import KINDS, LAUNCHED, Kind
from dpsgd_explorer.experiments.vocabulary import SETTINGS
from dpsgd_explorer.quotas import NO_LIMIT, QUOTAS, settable, variable
from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "configuration.md"
DOMAIN = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
TABLE = """| setting | symbol | unit | default | allowed | meaning |
|---|---|---|---|---|---|
"""
CONFIGS = [kind.config for kind in LAUNCHED.values()]
WIDTH = 92
VARIABLES = """| variable | default | meaning |
|---|---|---|
"""
LIMITS = """| variable | `local` | `public` | meaning |
|---|---|---|---|
"""


def parts() -> dict[str, str]:
    """Return the tables of docs/reference/configuration.md by name."""
    return {
        "kinds": "\n\n".join(_section(kind) for kind in LAUNCHED.values()),
        "environment": VARIABLES + "\n".join(_variable_rows()),
        "quotas": LIMITS + "\n".join(_quota_rows()),
    }


def _section(kind: Kind) -> str:
    """Return heading, text and table of a kind's settings."""
    table = TABLE + "\n".join(_setting_rows(kind.config))
    about = textwrap.fill(" ".join(kind.about.split()), WIDTH, break_on_hyphens=False)
    return f"## Settings of {kind.noun}\n\n{about}\n\n{table}"


def _setting_rows(config: type[RunConfig]) -> list[str]:
    """Return the rows of a kind's settings that no earlier kind has."""
    fields = config.model_json_schema()["properties"]
    parents = [base for base in config.__mro__[1:] if base in CONFIGS]
    shared = {name for base in parents for name in base.model_fields} - {"kind"}
    return [
        _setting_row(config, name, field)
        for name, field in fields.items()
        if name not in shared
    ]


def _setting_row(config: type[RunConfig], name: str, field: dict[str, Any]) -> str:
    default = field.get("default")
    shown = "" if default is None else f"`{default}`".replace("True", "true")
    meaning = field.get("description", "")
    if name == "kind":
        meaning = f"What is run: {KINDS[str(default)].noun}."
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
        for each in settable()
    ]


def _limits(name: str) -> str:
    """Return the limit in each profile, the local one first."""
    values = (getattr(quotas, name) for quotas in QUOTAS.values())
    return " | ".join(f"`{_as_text(value)}`" for value in values)


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value) or NO_LIMIT
    return NO_LIMIT if value is None else str(value)


if __name__ == "__main__":
    write(PAGE, parts())
