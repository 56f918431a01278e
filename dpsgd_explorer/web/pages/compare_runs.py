"""Pages that compare trainings: up to eight in one chart, or many as a Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flask import render_template, request
from markupsafe import Markup

from dpsgd_explorer.errors import ConfigError, RunNotFoundError
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.web.charts.several_runs import COMPARED, RunLine
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

MOST_LINKED = 200  # maximum number of ids in the address of a front


@dataclass
class RequestedRuns:
    """Runs that an address names, and messages about ids that were rejected."""

    runs: list[Run] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


bp.add_app_template_filter(text_of, "typed")
bp.add_app_template_filter(percent, "as_percent")


@bp.get("/compare", strict_slashes=False)
def compare() -> str | tuple[str, int]:
    """Shows up to eight trainings in shared charts; any visitor can open the link."""
    ids = _ids(comparison.MOST)
    requested = _requested_runs(ids, comparison.is_compared)
    visitor = current_visitor()
    status = 200 if requested.runs or not ids else 404
    store = run_store()
    result = None
    if requested.runs:
        phases = store.phases_of([run.id for run in requested.runs])
        result = comparison.compare(requested.runs, phases, visitor)
    page = render_template(
        "runs/compare.html",
        result=result,
        problems=requested.problems,
        most=comparison.MOST,
        charts=COMPARED,
        page_data={
            "runs": [_for_script(run) for run in result.runs] if result else [],
            "charts": {chart.name: chart.described() for chart in COMPARED},
        },
    )
    return page, status


@bp.get("/pareto", strict_slashes=False)
def front() -> str | tuple[str, int]:
    """Shows the Pareto fronts of the visitor's runs, or of the runs in the address."""
    ids = _ids(MOST_LINKED)
    visitor, store = current_visitor(), run_store()
    query = ListQuery.of(request.args)
    if ids:
        requested = _requested_runs(ids, pareto.has_place)
        rows = [row_of(run, None, visitor) for run in requested.runs]
    else:
        requested = RequestedRuns(store.runs_of(visitor, MOST) if visitor else [])
        rows = [row for row in rows_of(requested.runs, visitor) if query.takes(row)]
    rows_by_id = {row.run.id: row for row in rows}
    runs = [
        run for run in requested.runs if run.id in rows_by_id and pareto.has_place(run)
    ]
    phases = store.phases_of([run.id for run in runs])
    pareto_fronts = pareto.fronts(runs, rows_by_id, phases)
    page = render_template(
        "runs/pareto.html",
        fronts=[(front, _drawings(front)) for front in pareto_fronts],
        head=HEAD,
        problems=requested.problems,
        query=query,
        linked=bool(ids),
    )
    return page, 200 if runs or not ids else 404


def _ids(most: int) -> list[str]:
    """Returns the distinct ids of the address, ``ids=a,b`` or ``ids=a&ids=b``.

    Raises:
        ConfigError: There are more than ``most`` ids.
    """
    texts = ",".join(request.args.getlist("ids")).split(",")
    ids = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(ids) > most:
        raise ConfigError(
            "ids",
            f"ids must name at most {most} runs, got {len(ids)}. Remove some.",
        )
    return ids


def _requested_runs(
    ids: Sequence[str], is_taken: Callable[[Run], bool]
) -> RequestedRuns:
    requested = RequestedRuns()
    for run_id in ids:
        try:
            run = visible_run(run_id)
        except RunNotFoundError:
            requested.problems.append(
                f"Run “{run_id[:64]}” does not exist on this site: it was deleted, or "
                "its link is incomplete."
            )
            continue
        if is_taken(run):
            requested.runs.append(run)
        else:
            requested.problems.append(
                f"“{name_of(run)}” is not a training. Only trainings have an accuracy "
                "to compare."
            )
    return requested


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


def _for_script(compared: comparison.Compared) -> dict[str, object]:
    run = compared.row.run
    line = RunLine(
        key=compared.letter,
        label=compared.letter,
        dashed=not compared.is_private,
        together=compared.seeds,
        dataset=compared.row.dataset,
        private=compared.is_private,
        counted=compared.is_counted,
        planned=run.steps,
        budget=compared.budget,
    )
    return line.described() | {
        "id": run.id,
        "short": compared.short,
        "state": run.state,
        "begun": run.step > 0,
        "log": run.links["log"],
    }
