"""Texts and files that a run offers, in addition to its exports."""

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
    """Texts to copy, and files.

    Attributes:
        statement: Privacy statement, "" before there is one.
        bibtex: References of the run, "" if it is not private.
        weights: Size of the stored weights in bytes, 0 without weights.
        is_private: If True, the guarantee covers the weights.
        has_card: If True, the run has a picture to share.
        has_receipt: If True, the run's last event contains a receipt.
    """

    statement: str = ""
    bibtex: str = ""
    weights: int = 0
    is_private: bool = False
    has_card: bool = False
    has_receipt: bool = False


def take_along(run: Run, weights: int, phases: Points) -> TakeAlong:
    """Returns the texts and files of a run.

    Args:
        run: The run.
        weights: Size of its stored weights, in bytes.
        phases: Data of its log's ``phase`` events.
    """
    spent, claims = privacy_of(run), VIEWS[run.kind].claims
    is_private = spent is not None and spent.epsilon is not None
    has_receipt = VIEWS[run.kind].has_receipt and run.state == DONE and is_private
    if claims is None:
        return TakeAlong(
            weights=weights, is_private=is_private, has_receipt=has_receipt
        )
    return TakeAlong(
        claims.statement(run, spent, phases),
        bibtex(claims.sources(run, spent)),
        weights,
        is_private,
        claims.has_card(run),
        has_receipt,
    )


def card_of(
    run: Run, evaluations: Iterable[dict[str, Any]], phases: Points
) -> Card | None:
    """Returns the card of a run, None if it has none.

    Args:
        run: The run.
        evaluations: Data of its log's ``evaluation`` events.
        phases: Data of its ``phase`` events.
    """
    view, spent = VIEWS[run.kind], privacy_of(run)
    if view.claims is None or spent is None or not view.claims.has_card(run):
        return None
    title = view.subject(run.config)
    return view.claims.card(run, spent, title, evaluations, phases)
