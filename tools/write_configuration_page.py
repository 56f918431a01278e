"""Write the tables of docs/reference/configuration.md from the settings themselves.

Run as ``python -m tools.write_configuration_page``.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from dpsgd_explorer import settings
from dpsgd_explorer.experiments import engines_config, regression_config
from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.experiments.planted_bug_config import PlantedBugConfig
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.search_config import LISTED, USUAL_VALUES, SearchConfig
from dpsgd_explorer.experiments.training_config import (
    DEFAULT_EPSILON,
    DEFAULT_STEPS,
    TrainingConfig,
)
from dpsgd_explorer.experiments.vocabulary import SETTINGS
from dpsgd_explorer.quotas import NO_LIMIT, QUOTAS, Quotas, variable
from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "configuration.md"
DOMAIN = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
TABLE = """| setting | symbol | unit | default | allowed | meaning |
|---|---|---|---|---|---|
"""
VARIABLES = """| variable | default | meaning |
|---|---|---|
"""
LIMITS = """| variable | `local` | `public` | meaning |
|---|---|---|---|
"""
SEARCHES = (
    "The settings of a training, of `kind` `search`, and these. With no list given, "
    f"`{LISTED}` is {USUAL_VALUES}.\n\n"
)


def parts() -> dict[str, str]:
    """Return the tables of docs/reference/configuration.md by name."""
    return {
        "training": (
            f"With none given, `steps` is {DEFAULT_STEPS} and `target_epsilon` is "
            f"{DEFAULT_EPSILON:g}.\n\n{_settings(TrainingConfig)}"
        ),
        "regression": (
            "Missing settings are filled in with `target_epsilon` = "
            f"{regression_config.DEFAULT_EPSILON:g}, then by `noise_multiplier` = "
            f"{regression_config.DEFAULT_NOISE:g}.\n\n{_settings(RegressionConfig)}"
        ),
        "engines": (
            f"A step needs at most {engines_config.MOST_A_STEP:.0e} multiply-adds."
            f"\n\n{_settings(EnginesConfig)}"
        ),
        "attack": _settings(AttackConfig),
        "planted_bug": _settings(PlantedBugConfig),
        "search": SEARCHES + TABLE + "\n".join(_search_rows()) + "\n",
        "environment": VARIABLES + "\n".join(_variable_rows()),
        "quotas": LIMITS + "\n".join(_quota_rows()),
    }


def _settings(config: type[RunConfig]) -> str:
    """Return the table of a kind's settings."""
    fields = config.model_json_schema()["properties"]
    rows = [_setting_row(config, name, field) for name, field in fields.items()]
    return TABLE + "\n".join(rows) + "\n"


def _search_rows() -> list[str]:
    """Return the rows of what a search has beyond a training."""
    fields = SearchConfig.model_json_schema()["properties"]
    own = [name for name in fields if name not in TrainingConfig.model_fields]
    return [_setting_row(SearchConfig, name, fields[name]) for name in own]


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
    write(PAGE, parts())
