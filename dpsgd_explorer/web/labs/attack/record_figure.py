"""Figure of one attacked record: models trained with and without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot, round_ticks
from dpsgd_explorer.web.questions.rounding import nearest, percent

Data = dict[str, Any]

ROWS = {
    ("ordinary", "joined"): "without privacy, trained on it",
    ("ordinary", "left_out"): "without privacy, not trained on it",
    ("private", "joined"): "private, trained on it",
    ("private", "left_out"): "private, not trained on it",
}
FILLS = {"joined": "f-attack", "left_out": "f-private"}


def record_picture(phase: Data, evaluations: Sequence[Data], end: Data) -> Picture:
    """Returns the logits of the record's label under shadow models and both targets.

    Args:
        phase: Data of the run's ``phase`` event.
        evaluations: Data of the run's ``evaluation`` events.
        end: Data of the run's ``end`` event.
    """
    record, logits = phase["record"], end["record"]
    pairs = {target: pairs_told_apart(logits[target]) for target in logits}
    return Picture(
        title=(
            "A model trained on your record is surer of its label than a model "
            f"trained without it: in {pairs['ordinary']} pairs without privacy, in "
            f"{pairs['private']} pairs with privacy; a coin is right in half"
        ),
        sub=(
            f"{record_name(record)}: logit of its label, for every shadow model; the "
            "mark is the attacked model, trained "
            + ("with it" if record["joined"] else "without it")
        ),
        wide=_draw(record, logits, (904, 300), left=220),
        narrow=_draw(record, logits, (342, 300), left=12),
        head=("models", "lowest", "median", "highest", "attacked model"),
        rows=tuple(_row(key, name, record, logits) for key, name in ROWS.items()),
        kind="recorded",
        note=" ".join(
            _verdict(event, record) for event in evaluations if _is_ratio(event)
        ),
        is_private=False,
    )


def pairs_told_apart(logits: Data) -> str:
    """Returns the number of pairs whose member model is more certain, as "3 of 4"."""
    pairs = [(a, b) for a in logits["joined"] for b in logits["left_out"]]
    right = sum((a > b) + (a == b) / 2 for a, b in pairs)
    return f"{right:g} of {len(pairs)}"


def _is_ratio(evaluation: Data) -> bool:
    return bool(evaluation["attack"] == "likelihood_ratio")


def record_name(record: Data) -> str:
    """Returns the record's number, its label and its planted label."""
    label, planted = record["label"], record["planted"]
    labelled = (
        f"label {label}" if label == planted else f"a {label}, planted as {planted}"
    )
    return f"Record {record['index']} ({labelled})"


def _verdict(evaluation: Data, record: Data) -> str:
    """Returns a sentence on the attacker's guess about the record."""
    says_in = evaluation["record"]["score"] > 0
    verdict = "was in" if says_in else "was not in"
    truth = "right" if says_in == record["joined"] else "wrong"
    which = "ordinary" if evaluation["target"] == "ordinary" else "private"
    reached = percent(evaluation["record"]["reached_by"], 0)
    return (
        f"About the {which} model, the attacker guesses that the record {verdict}: "
        f"{truth}; {reached} % of the records that were not in score as high."
    )


def _row(
    key: tuple[str, str], name: str, record: Data, logits: Data
) -> tuple[str, ...]:
    target, half = key
    values = sorted(logits[target][half])
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    is_own = record["joined"] == (half == "joined")
    return (
        name,
        *(nearest(value) for value in (values[0], middle, values[-1])),
        nearest(logits[target]["target"]) if is_own else "–",
    )


def _draw(record: Data, logits: Data, size: tuple[int, int], *, left: int) -> Markup:
    is_narrow = size[0] < 500
    everything = [
        value
        for of in logits.values()
        for value in (*of["joined"], *of["left_out"], of["target"])
    ]
    low, high = min(everything), max(everything)
    room = 0.05 * (high - low) or 1.0
    bounds = (low - room, high + room)
    plot = Plot.framed(size, bounds, (0.0, 4.0), left=left, top=20)
    plot.x_axis(round_ticks(bounds, 4 if is_narrow else 8), "logit of the label")
    for place, ((target, half), name) in enumerate(ROWS.items()):
        height = 3.4 - place
        plot.path([(bounds[0], height), (bounds[1], height)], "grid")
        if is_narrow:
            plot.text((bounds[0], height), name, "halo", shift=(0, -12))
        else:
            plot.text((bounds[0], height), name, "", "end", (-12, 4))
        for value in logits[target][half]:
            plot.speck((value, height), FILLS[half], 4)
        if record["joined"] == (half == "joined"):
            _mark(plot, (logits[target]["target"], height))
    return plot.svg(
        "Four rows of dots, one dot per shadow model. Without privacy, models "
        "trained on the record are to the right of models trained without it; with "
        "privacy, the rows overlap as far as ε requires."
    )


def _mark(plot: Plot, point: tuple[float, float]) -> None:
    plot.dot(point, "f-ink", 6)
