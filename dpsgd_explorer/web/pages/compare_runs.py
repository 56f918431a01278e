"""Pages that lay trainings over each other: side by side, and as a front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flask import render_template, request
from markupsafe import Markup

from dpsgd_explorer.errors import ConfigError, RunNotFoundError
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.figures.pareto import HEAD, Dot, Place, pareto_drawings
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.http.own_tables import visible_run
from dpsgd_explorer.web.http.services import run_store
from dpsgd_explorer.web.http.visitor import current_visitor
from dpsgd_explorer.web.pages.runs import MOST, bp
from dpsgd_explorer.web.questions.rounding import percent
from dpsgd_explorer.web.run_views import comparison, pareto
from dpsgd_explorer.web.run_views.listing import ListQuery, row_of, rows_of
from dpsgd_explorer.web.run_views.naming import name_of

MOST_LINKED = 200  # ids in the address of a front


@dataclass
class Asked:
    """The runs that an address names, and what is wrong with the others."""

    runs: list[Run] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


bp.add_app_template_filter(text_of, "typed")
bp.add_app_template_filter(percent, "as_percent")


@bp.get("/compare", strict_slashes=False)
def compare() -> str | tuple[str, int]:
    """Lay up to eight trainings over each other; a link to it works for everybody."""
    ids = _ids(comparison.MOST)
    asked = _asked(ids, comparison.is_compared)
    visitor = current_visitor()
    status = 200 if asked.runs or not ids else 404
    store = run_store()
    result = None
    if asked.runs:
        phases = store.phases_of([run.id for run in asked.runs])
        result = comparison.compare(asked.runs, phases, visitor)
    page = render_template(
        "runs/compare.html",
        result=result,
        problems=asked.problems,
        most=comparison.MOST,
        page_data={
            "runs": [_for_script(one) for one in result.runs] if result else [],
        },
    )
    return page, status


@bp.get("/pareto", strict_slashes=False)
def front() -> str | tuple[str, int]:
    """Show trainings and searches, the visitor's or of the address, as fronts."""
    ids = _ids(MOST_LINKED)
    visitor, store = current_visitor(), run_store()
    query = ListQuery.of(request.args)
    if ids:
        asked = _asked(ids, pareto.has_place)
        rows = [row_of(run, None, visitor) for run in asked.runs]
    else:
        asked = Asked(store.runs_of(visitor, MOST) if visitor else [])
        rows = [row for row in rows_of(asked.runs, visitor) if query.takes(row)]
    known = {row.run.id: row for row in rows}
    runs = [run for run in asked.runs if run.id in known and pareto.has_place(run)]
    phases = store.phases_of([run.id for run in runs])
    found = pareto.fronts(runs, known, phases)
    page = render_template(
        "runs/pareto.html",
        fronts=[(one, _drawings(one)) for one in found],
        head=HEAD,
        problems=asked.problems,
        query=query,
        linked=bool(ids),
    )
    return page, 200 if runs or not ids else 404


def _ids(most: int) -> list[str]:
    """Return the ids of the address, ``ids=a,b`` or ``ids=a&ids=b``, each once.

    Raises:
        ConfigError: there are too many.
    """
    texts = ",".join(request.args.getlist("ids")).split(",")
    ids = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(ids) > most:
        raise ConfigError(
            "ids",
            f"ids must name at most {most} runs, got {len(ids)}. Remove some.",
        )
    return ids


def _asked(ids: Sequence[str], is_taken: Callable[[Run], bool]) -> Asked:
    asked = Asked()
    for run_id in ids:
        try:
            run = visible_run(run_id)
        except RunNotFoundError:
            asked.problems.append(
                f"Run “{run_id[:64]}” does not exist on this site: it was deleted, or "
                "its link is incomplete."
            )
            continue
        if is_taken(run):
            asked.runs.append(run)
        else:
            asked.problems.append(
                f"“{name_of(run)}” is not a training. Only trainings have an accuracy "
                "to compare."
            )
    return asked


def _drawings(front: pareto.Front) -> tuple[Markup, Markup] | None:
    drawn = [
        Dot(
            epsilon=dot.epsilon,
            accuracy=dot.accuracy,
            place=_place(dot),
            link=f"{dot.row.run.links['page']}#replay",
            words=dot.words,
            spent=dot.spent,
        )
        for dot in front.dots
    ]
    return pareto_drawings(front.label, drawn) if drawn else None


def _place(dot: pareto.Dot) -> Place:
    if not dot.is_done:
        return "ended"
    return "on-front" if dot.on_front else "beaten"


def _for_script(one: comparison.Compared) -> dict[str, object]:
    run = one.row.run
    return {
        "id": run.id,
        "letter": one.letter,
        "title": one.row.title,
        "short": one.short,
        "seeds": one.seeds,
        "state": run.state,
        "begun": run.step > 0,
        "log": run.links["log"],
        "planned": run.steps,
        "budget": one.budget,
        "dataset": one.row.dataset,
        "private": one.is_private,
        "counted": one.is_counted,
    }
