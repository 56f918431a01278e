"""ROC curves of membership attacks, with the limit of this run for any attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot
from dpsgd_explorer.web.questions.odds import EPSILON_ALONE, THIS_RUN, most_hits
from dpsgd_explorer.web.questions.rounding import limit, percent, percent_limit

Data = dict[str, Any]

ATTACKS = {
    "loss": "loss threshold",
    "likelihood_ratio": "likelihood ratio (LiRA)",
    "relative_likelihood": "relative likelihood (RMIA)",
}
TARGETS = {"ordinary": "without privacy", "private": "private"}
SERIES = {"ordinary": "s-twin dashed", "private": "s-private"}
WASHES = {"ordinary": "f-wash-twin", "private": "f-area"}
STYLES = {
    "likelihood_ratio": "",
    "relative_likelihood": "thin dashed",
    "loss": "thin dotted",
}
HEADLINE = "likelihood_ratio"
READ_AT = (0.01, 0.1)  # false positive rates in title and table
LEAST = 1e-3


def roc_picture(
    phase: Data, evaluations: Sequence[Data], epsilon: float, delta: float
) -> Picture:
    """Returns the ROC curves of all attacks on both targets, with the limit.

    Args:
        phase: Data of the run's ``phase`` event.
        evaluations: Data of the run's ``evaluation`` events.
        epsilon: ε of the private target.
        delta: δ of the private target.
    """
    by_attack = {(e["target"], e["attack"]): e for e in evaluations}
    ordinary, private = (by_attack[target, HEADLINE] for target in TARGETS)
    read = READ_AT[0]
    by_epsilon = most_hits(read, epsilon, delta)
    return Picture(
        title=(
            f"At {percent(read, 0)} % false positives the attack finds "
            f"{percent(rate_at(ordinary, read), 0)} % of the members of the ordinary "
            f"model and {percent(rate_at(private, read), 0)} % of the private one’s; "
            f"{THIS_RUN} allows any attack {percent_limit(ceiling_at(phase, read), 0)} "
            f"%, {EPSILON_ALONE} (ε = {limit(epsilon)}) "
            f"{percent_limit(by_epsilon, 0)} %"
        ),
        sub=(
            "True positives against false positives, logarithmic, at every threshold; "
            f"{phase['members']} members and {phase['others']} others; band: 95 % "
            "interval of the likelihood ratio"
        ),
        wide=_draw(phase, evaluations, (904, 420)),
        narrow=_draw(phase, evaluations, (342, 360)),
        head=_head(),
        rows=tuple(_row(phase, e) for e in evaluations),
        kind="recorded",
        status="exact",
        note=" ".join([*_exceeding(evaluations), CEILING]),
        is_private=False,
    )


CEILING = (
    f"The ceiling is the limit of {THIS_RUN}: it is exact and holds for every attack "
    "on a record that joins by a fair coin. Intervals treat records as independent."
)


def rate_at(evaluation: Data, rate: float) -> float:
    """Returns the largest true positive rate with at most ``rate`` false positives."""
    return float(_point_at(evaluation, rate)["true_positive_rate"])


def ceiling_at(phase: Data, rate: float) -> float:
    """Returns the limit on the true positive rate at a false positive rate.

    Between two logged rates it is the limit at the larger one, so it is conservative.
    """
    ceiling = phase["ceiling"]
    pairs = zip(
        ceiling["false_positive_rates"], ceiling["true_positive_rates"], strict=True
    )
    return float(next(most for fpr, most in pairs if fpr >= rate * (1 - 1e-9)))


def _point_at(evaluation: Data, rate: float) -> Data:
    points: list[Data] = evaluation["points"]
    within = [p for p in points if p["false_positive_rate"] <= rate]
    return within[-1]


def _head() -> tuple[str, ...]:
    rates = (f"TPR at FPR ≤ {percent(rate, 0)} % (95 % interval)" for rate in READ_AT)
    return (
        "attack",
        "on",
        "area",
        *rates,
        f"ceiling at 1 %, {THIS_RUN}",
        "above, by chance or not",
    )


def _row(phase: Data, evaluation: Data) -> tuple[str, ...]:
    is_limited = evaluation["above"] is not None
    return (
        ATTACKS[evaluation["attack"]],
        TARGETS[evaluation["target"]],
        f"{evaluation['area']:.3f}",
        *(_with_interval(_point_at(evaluation, rate)) for rate in READ_AT),
        f"{percent_limit(ceiling_at(phase, READ_AT[0]))} %" if is_limited else "none",
        f"{evaluation['above']}, {evaluation['beyond']}" if is_limited else "–",
    )


def _with_interval(point: Data) -> str:
    rate, low, high = (
        percent(point[name]) for name in ("true_positive_rate", "low", "high")
    )
    return f"{rate} % ({low} to {high})"


def _exceeding(evaluations: Sequence[Data]) -> list[str]:
    """Returns sentences on points above the limit."""
    private = [
        evaluation for evaluation in evaluations if evaluation["above"] is not None
    ]
    above = sum(evaluation["above"] for evaluation in private)
    beyond = sum(evaluation["beyond"] for evaluation in private)
    if not above:
        return ["No measured point of the private model is above the ceiling."]
    points = "1 measured point" if above == 1 else f"{above} measured points"
    verb = "is" if above == 1 else "are"
    if not beyond:
        return [
            f"{points} of the private model {verb} above the ceiling, by chance: "
            "every 95 % interval reaches down to it."
        ]
    return [
        f"{points} of the private model {verb} above the ceiling, {beyond} with the "
        "whole 95 % interval: in a correct run, one threshold in twenty does this. "
        "Repeat the run with other seeds before you suspect the training."
    ]


def _draw(phase: Data, evaluations: Sequence[Data], size: tuple[int, int]) -> Markup:
    is_narrow = size[0] < 500
    plot = Plot.framed(size, (LEAST, 1.0), (0.0, 1.0), left=48, top=34, log_x=True)
    ceiling = phase["ceiling"]
    most = list(
        zip(
            ceiling["false_positive_rates"], ceiling["true_positive_rates"], strict=True
        )
    )
    plot.path([*most, (1, 1), (LEAST, 1)], "f-wash-budget", close=True)
    plot.y_axis([(x / 4, f"{25 * x} %") for x in range(5)], "true positives")
    ticks = [(1e-3, "0.1 %"), (1e-2, "1 %"), (0.1, "10 %"), (1.0, "100 %")]
    plot.x_axis(ticks, "false positives, log scale")
    plot.curve(lambda rate: rate, "thin s-faint dotted")
    for evaluation in evaluations:
        if evaluation["attack"] == HEADLINE:
            _band(plot, evaluation)
    for evaluation in evaluations:
        css = f"{SERIES[evaluation['target']]} {STYLES[evaluation['attack']]}".strip()
        plot.line(_steps(evaluation, "true_positive_rate"), css)
    plot.line(most, "s-budget")
    _label(plot, evaluations, is_narrow)
    return plot.svg(
        "True against false positives of three attacks. The ordinary model’s curves "
        "rise far above the diagonal of guessing at few false positives; the private "
        "model’s stay near it, under the ceiling that the accountant computes."
    )


def _band(plot: Plot, evaluation: Data) -> None:
    low, high = _steps(evaluation, "low"), _steps(evaluation, "high")
    plot.path([*high, *reversed(low)], WASHES[evaluation["target"]], close=True)


def _steps(evaluation: Data, name: str) -> list[tuple[float, float]]:
    """Returns the corners of the staircase through the points of an attack."""
    corners: list[tuple[float, float]] = []
    for point in evaluation["points"]:
        rate = max(point["false_positive_rate"], LEAST)
        if corners:
            corners.append((rate, corners[-1][1]))
        corners.append((rate, point[name]))
    return corners


def _label(plot: Plot, evaluations: Sequence[Data], is_narrow: bool) -> None:
    """Draws the names of both targets and of the limit."""
    for evaluation in evaluations:
        if evaluation["attack"] == HEADLINE:
            rate = 0.02 if evaluation["target"] == "ordinary" else 0.1
            height = _point_at(evaluation, rate)["true_positive_rate"]
            css = "twin halo" if evaluation["target"] == "ordinary" else "private halo"
            plot.text(
                (rate, height), TARGETS[evaluation["target"]], css, "end", (-6, -10)
            )
    plot.text((LEAST, 0.93), "no attack on the private model gets here", "budget halo")
    if not is_narrow:
        words = "solid: likelihood ratio; dashed: relative likelihood; dotted: loss"
        plot.text((LEAST, 0.85), words, "halo", shift=(0, 0))
