"""What one takes along from a run beside its exports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import DONE
from dpsgd_explorer.web.figures.exports.share_card import Card
from dpsgd_explorer.web.run_views.base import Points
from dpsgd_explorer.web.run_views.models import privacy_of
from dpsgd_explorer.web.run_views.registry import VIEWS
from dpsgd_explorer.web.run_views.statement import bibtex


@dataclass(frozen=True)
class TakeAlong:
    """Texts to paste, and files.

    Attributes:
        statement: What may be claimed, "" if nothing is known yet.
        bibtex: What the run rests on, "" if it is not private.
        weights: Bytes of the stored weights, 0 if there are none.
        is_private: Whether the weights are within a guarantee.
        has_card: Whether there is a picture to share.
        has_receipt: Whether its last event holds a receipt.
    """

    statement: str = ""
    bibtex: str = ""
    weights: int = 0
    is_private: bool = False
    has_card: bool = False
    has_receipt: bool = False


def take_along(run: Run, weights: int, phases: Points) -> TakeAlong:
    """Return what a run offers.

    Args:
        run: The run.
        weights: Bytes of its stored weights.
        phases: The data of its log's ``phase`` events.
    """
    spent, claims = privacy_of(run), VIEWS[run.kind].claims
    is_private = spent is not None and spent.epsilon is not None
    if claims is None:
        return TakeAlong(weights=weights, is_private=is_private)
    return TakeAlong(
        claims.statement(run, spent, phases),
        bibtex(claims.sources(run, spent)),
        weights,
        is_private,
        claims.has_card(run),
        run.state == DONE and is_private,
    )


def card_of(
    run: Run, evaluations: Iterable[dict[str, Any]], phases: Points
) -> Card | None:
    """Return the card of a run, None if it has none.

    Args:
        run: The run.
        evaluations: The data of its log's ``evaluation`` events.
        phases: The data of its ``phase`` events.
    """
    view, spent = VIEWS[run.kind], privacy_of(run)
    if view.claims is None or spent is None or not view.claims.has_card(run):
        return None
    title = view.subject(run.config)
    return view.claims.card(run, spent, title, evaluations, phases)
