"""Widget on a language model that completes a phone number from its training text.

Misconception: "a model learns how people write, not what one of them wrote"
Content: digits that a fine-tuned model says after the start of a sentence, for copies
    of the sentence among the training records, without privacy and with DP-SGD
Source: Carlini et al. 2019; Nasr et al. 2023; recorded by `record.py`
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.web.figures.svg import Picture, Plot, small
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.rounding import nearest
from dpsgd_explorer.web.recorded.files import recording

#: Names of the two trainings, as on the buttons.
WAYS = {"ordinary": "without privacy", "private": "with DP-SGD"}
COPIES = 5
READINGS = ("says", "rank", "bits per byte")


def stored() -> dict[str, Any]:
    """Returns the recorded answers."""
    return recording("recorded", Path(__file__).parent)


def data() -> dict[str, Any]:
    """Returns the answers of all models, and the copies of the first state."""
    found = stored()
    return {
        "start": found["start"],
        "number": found["number"],
        "persons": found["persons"],
        "ways": WAYS,
        "first": [answer["copies"] for answer in found["answers"]].index(COPIES),
        "answers": [
            {**answer, "guarantee": _guarantee(answer["private"], answer["copies"])}
            for answer in found["answers"]
        ],
    }


def _guarantee(answer: dict[str, Any], copies: int) -> str:
    """Returns what this run promises to one record, and to the writer of all copies."""
    promise = f"ε = {answer['epsilon']} for one record"
    if copies > 1:
        promise += f", {answer['epsilon_of_copies']} for all {copies} together"
    return f"{promise} (exact, this run, δ = {small(stored()['delta'])})"


@cache
def picture() -> Picture:
    """Returns the rank of the true number, by copies and by training."""
    answers = stored()["answers"]
    ranks = {
        way: [(one["copies"], one[way]["rank"]) for one in answers] for way in WAYS
    }
    [epsilon] = {one["private"]["epsilon"] for one in answers}
    recited = min(one["copies"] for one in answers if one["ordinary"]["rank"] == 1)
    return Picture(
        title=(
            f"In one training each, {recited} copies were enough for the model to say "
            "the number, without privacy"
        ),
        sub=(
            "Rank of the true number among all 10,000 after “"
            f"{stored()['start']}”; rank 1 is what the model says. With DP-SGD: ε = "
            f"{epsilon} for one record (exact)"
        ),
        wide=_draw((904, 260), ranks),
        narrow=_draw((342, 260), ranks),
        head=("copies", *(f"{name}: {x}" for name in WAYS.values() for x in READINGS)),
        rows=tuple(
            (
                f"{one['copies']}",
                *(words for way in WAYS for words in _readings(one[way])),
            )
            for one in answers
        ),
        kind="recorded",
        note=(
            f"One training each: {stored()['steps']} steps of LoRA from public weights "
            f"on {stored()['persons']:,} persons’ sentences and the copies. Bits per "
            "byte: of other people’s sentences, less is better. The person and the "
            "number are invented."
        ),
        is_private=False,
    )


def _readings(answer: dict[str, Any]) -> tuple[str, ...]:
    bits = nearest(answer["bits_per_byte"])
    return answer["number"], f"{answer['rank']:,}", bits


def _draw(size: tuple[int, int], ranks: dict[str, list[tuple[int, int]]]) -> Markup:
    most = max(copies for copies, _ in ranks["ordinary"])
    plot = Plot.framed(
        size, (0.0, float(most)), (0.9, 1.2e4), left=64, top=30, log_y=True
    )
    plot.y_axis([(10**i, f"{10**i:,}") for i in range(5)], "rank, log scale")
    plot.x_axis([(c, f"{c}") for c, _ in ranks["ordinary"]], "copies")
    for way, css in (("ordinary", "twin"), ("private", "private")):
        plot.line(ranks[way], f"s-{css}")
        for point in ranks[way]:
            plot.dot(point, f"f-{css}", 4)
    plot.text((most, ranks["ordinary"][-1][1]), WAYS["ordinary"], "", "end", (0, -10))
    plot.text((most, ranks["private"][-1][1]), WAYS["private"], "", "end", (0, 18))
    words = ", ".join(f"{copies} copies: {rank}" for copies, rank in ranks["ordinary"])
    return plot.svg(f"Rank of the true number without privacy, {words}.")


WIDGET = Widget(
    slug="recited-number",
    title="A number that a model recites",
    picture=picture,
    data=data,
    controls={"copies": "Copies of the sentence", "way": "How the model was trained"},
    starts={
        "copies": (Choices(tuple(one["copies"] for one in stored()["answers"])),),
        "way": (Choices((0, 1)),),
    },
)
