"""Write the lists of docs/reference/http-api.md from the routes and their models.

Run as ``python -m tools.write_http_api_page``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from pydantic import BaseModel

from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.events import Kind
from dpsgd_explorer.experiments.kinds import DEFAULT_KIND, KINDS, LAUNCHED
from dpsgd_explorer.settings import Settings
from dpsgd_explorer.web import create_app
from dpsgd_explorer.web.api.openapi import PATH_PARAMETER, described_routes
from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "http-api.md"
ARGUMENTS = """| route | required | optional |
|---|---|---|
"""
#: Event kind that the store logs; a run logs all others itself.
STATE = "state"


def parts() -> dict[str, str]:
    """Return the lists of docs/reference/http-api.md by name."""
    rows = [
        f"| `{path}` | {required} | {optional} |"
        for path, required, optional in query_arguments()
    ]
    return {
        "kinds": (
            f"The kinds are {_listed(list(LAUNCHED))}. `kind` is `{DEFAULT_KIND}` by "
            "default."
        ),
        "events": f"The kinds of event are {_listed(event_kinds())}.",
        "arguments": ARGUMENTS + "\n".join(rows),
    }


def event_kinds() -> list[str]:
    """Return the kinds of events in a run's log."""
    return [STATE, *get_args(Kind)]


def query_arguments() -> list[tuple[str, str, str]]:
    """Return each route with a query, with its required and optional arguments."""
    with TemporaryDirectory() as folder:
        app = create_app(Settings.from_environment({"DPSGD_INSTANCE_DIR": folder}))
        routes = described_routes(app)
        app.extensions["run_store"].database.close()
    return [
        (PATH_PARAMETER.sub(r"{\1}", rule), *_arguments(operation.query))
        for rule, operation in routes
        if operation.query is not None
    ]


def _arguments(query: type[BaseModel]) -> tuple[str, str]:
    required = [
        name for name, field in query.model_fields.items() if field.is_required()
    ]
    own = [name for name in query.model_fields if name not in required]
    if not issubclass(query, RunConfig):
        return _named(required), _named(own)
    kind = query.model_fields["kind"].default
    settings = f"[settings of a run]({PAGE.with_name('configuration.md').name})"
    known = KINDS[kind].config.model_fields
    more = [name for name in own if name not in known]
    return _named(required), ", ".join(
        [f"{settings} of kind `{kind}`", *([_named(more)] if more else [])]
    )


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"


def _listed(names: Sequence[str]) -> str:
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} and {last}"


if __name__ == "__main__":
    write(PAGE, parts())
