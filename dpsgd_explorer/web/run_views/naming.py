"""Names of runs that their visitors did not name: what differs from where they began.

"Adult income, ε = 1 · η 5 · seed 8" is a run of the preset of that title with another
learning rate and seed.  The preset that the fewest settings differ from is taken.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.forms.fields import FormField
from dpsgd_explorer.web.run_views.base import RunView, Settings
from dpsgd_explorer.web.run_views.registry import VIEWS

SHOWN = 4  # settings in a name, the seed apart
SEED = "seed"
KNOWN = 4096  # names
SHARED = ("ε",)  # symbols that several settings have


def default_name(
    view: RunView, config: Settings, starts: Sequence[Settings] = ()
) -> str:
    """Returns the title of a configuration and its differences from the nearest start.

    Args:
        view: View of the kind of run.
        config: The configuration.
        starts: Configurations to compare with; by default those of the view.
    """
    whole = whole_config(view, config)
    differing = min(
        (_differing(view, whole, start) for start in starts or view.starts), key=len
    )
    named = [name for name in differing if name != SEED]
    parts = [short(view.fields[name], whole[name]) for name in named[:SHOWN]]
    if len(named) > SHOWN:
        parts.append(f"{len(named) - SHOWN} more")
    parts += [short(view.fields[SEED], whole[SEED])] if SEED in differing else []
    return " · ".join([view.title(whole), *parts])


def name_of(run: Run) -> str:
    """Return what a run is called by itself: the visitor's name, else its title."""
    return run.name or run.title or title_of(run)


def title_of(run: Run) -> str:
    """Return the title that follows from a run's settings, without a number."""
    return _known_name(run.kind, json.dumps(run.config))


@lru_cache(maxsize=KNOWN)
def _known_name(kind: str, config: str) -> str:
    """Return the default name of a configuration that may have been named before."""
    return default_name(VIEWS[kind], json.loads(config))


def names_of(runs: Iterable[Run]) -> dict[str, str]:
    """Return what each run of a visitor is called, by its id, newest run first.

    Runs that are older than stored titles and would have one name are numbered from the
    oldest on; names that the visitor gave stay as they are.
    """
    names: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for run in reversed(list(runs)):
        name = name_of(run)
        seen[name] += not (run.name or run.title)
        is_again = not (run.name or run.title) and seen[name] > 1
        names[run.id] = f"{name} ({seen[name]})" if is_again else name
    return names


def whole_config(view: RunView, config: Settings) -> Settings:
    """Return a configuration with the settings that are younger than its run."""
    usual = {name: f.default for name, f in view.config.model_fields.items()}
    return usual | config


def _differing(view: RunView, config: Settings, start: Settings) -> list[str]:
    """Return the settings that differ and that a name can say."""
    return [
        name
        for name in view.fields
        if name not in view.titled
        and config[name] is not None
        and config[name] != start[name]
        and view.counts(name, config)
    ]


def short(field: FormField, value: object) -> str:
    """Return a setting in a name: η 5, seed 8, Adam."""
    words = field.in_words(value)
    if field.choices:
        return words
    label = field.label[:1].lower() + field.label[1:]
    if field.symbol in SHARED:
        return f"{label} {field.symbol} {words}"
    return f"{field.symbol or label} {words}"
