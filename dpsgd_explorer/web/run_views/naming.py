"""Default names of runs: the differences from the nearest starting configuration.

"Adult income, ε = 1 · η 5" is a run of the preset with this title, but with another
learning rate.  The nearest preset has the fewest differences.  The seed is part of a
name only if two runs of a visitor differ by nothing else.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from dpsgd_explorer.runs.store.labels import SEED, with_seed
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.forms.fields import FormField
from dpsgd_explorer.web.run_views.base import RunView, Settings
from dpsgd_explorer.web.run_views.registry import VIEWS

SHOWN = 4  # maximum number of settings in a name
KNOWN = 4096  # maximum number of cached names
SHARED = ("ε",)  # symbols that several settings share


def default_name(
    view: RunView, config: Settings, starts: Sequence[Settings] = ()
) -> str:
    """Returns the title of a configuration and its differences from the nearest start.

    Args:
        view: View of the kind of run.
        config: The configuration.
        starts: Configurations to compare with; by default the starts of the view.
    """
    whole = whole_config(view, config)
    differing = differing_settings(view, config, starts)
    named = [name for name in differing if name != SEED]
    parts = [short(view.fields[name], whole[name]) for name in named[:SHOWN]]
    if len(named) > SHOWN:
        parts.append(f"{len(named) - SHOWN} more")
    return " · ".join([view.title(whole), *parts])


def differing_settings(
    view: RunView, config: Settings, starts: Sequence[Settings] = ()
) -> list[str]:
    """Returns the settings in which a configuration differs from the nearest start.

    Args:
        view: View of the kind of run.
        config: The configuration.
        starts: Configurations to compare with; by default the starts of the view.
    """
    whole = whole_config(view, config)
    return min(
        (_differing(view, whole, start) for start in starts or view.starts), key=len
    )


def name_of(run: Run) -> str:
    """Returns the name that the visitor gave to a run, else its title."""
    return run.name or run.title or title_of(run.kind, run.config)


def title_of(kind: str, config: Settings) -> str:
    """Returns the title for a run's settings, without a number."""
    return _cached_name(kind, json.dumps(config))


@lru_cache(maxsize=KNOWN)
def _cached_name(kind: str, config: str) -> str:
    """Returns the default name of a configuration, cached."""
    return default_name(VIEWS[kind], json.loads(config))


def names_of(runs: Iterable[Run]) -> dict[str, str]:
    """Returns the name of each run of a visitor by its id, for runs from newest.

    Runs from before titles were stored get their seed or a number, oldest first, if
    their names are equal; names that the visitor gave do not change.
    """
    names: dict[str, str] = {}
    seeds: defaultdict[str, list[Any]] = defaultdict(list)
    for run in reversed(list(runs)):
        names[run.id] = name = name_of(run)
        if run.name or run.title:
            continue
        seed = run.config.get(SEED)
        if seeds[name] and seed not in seeds[name]:
            name = with_seed(name, seed)
        seeds[name].append(seed)
        count = len(seeds[name])
        names[run.id] = f"{name} ({count})" if count > 1 else name
    return names


def whole_config(view: RunView, config: Settings) -> Settings:
    """Returns a configuration with defaults for settings newer than its run."""
    defaults = {name: f.default for name, f in view.config.model_fields.items()}
    return defaults | config


def _differing(view: RunView, config: Settings, start: Settings) -> list[str]:
    """Returns the names of the settings that differ and can be part of a name."""
    return [
        name
        for name in view.fields
        if name not in view.titled
        and config[name] is not None
        and config[name] != start[name]
        and view.counts(name, config)
    ]


def short(field: FormField, value: object) -> str:
    """Returns a setting in short form: η 5, seed 8, Adam."""
    words = field.in_words(value)
    if field.choices:
        return words
    label = field.label[:1].lower() + field.label[1:]
    if field.symbol in SHARED:
        return f"{label} {field.symbol} {words}"
    return f"{field.symbol or label} {words}"
