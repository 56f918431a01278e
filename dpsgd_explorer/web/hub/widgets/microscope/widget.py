"""The one-step microscope: a DP-SGD step on 24 records in seven sub-steps.

A second view has the lengths of a recorded step of a network.

Misconception: "Noise is added to each gradient", "clipping is harmless", "divide by the
    batch that was drawn", and "a smaller C is more private"
Content: one step in seven sub-steps on 24 records: which arrows are cut, what clipping
    does to the direction, noise once on the sum with 200 other draws, the expected size
    as divisor; of a network the recorded lengths of all gradients, since a plane would
    show them too short, and noise that is σC√d long
Source: Abadi et al. 2016, arXiv:1607.00133; bias of clipping: Chen, Wu and Hong 2020,
    arXiv:2006.15429; the network’s lengths: `web/hub/widgets/microscope/record.py`
"""

from __future__ import annotations

import math
from typing import Any

from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.starts import Choices, Span
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.microscope import dpsgd_step, real_step

LEARNING_RATE = 1.0
SUB_STEPS = (
    ("sample", "Sample a batch"),
    ("compute", "Compute each gradient"),
    ("clip", "Clip to length C"),
    ("sum", "Sum"),
    ("noise", "Add noise"),
    ("divide", "Divide by qN"),
    ("move", "Move"),
)


def picture() -> Picture:
    """Returns the figure of the complete step, for pages without script."""
    return dpsgd_step.microscope_picture()


def clipped_degrees() -> str:
    """Returns the angle between the mean and the clipped mean gradient, in degrees."""
    now = dpsgd_step.step()
    return f"{toy.angle(now.true_mean, now.clipped_mean):.0f}°"


def clipped_share() -> str:
    """Returns the number of clipped records in the batch, as text."""
    now = dpsgd_step.step()
    return f"{now.clipped_count} of {len(now.gradients)}"


def data() -> dict[str, Any]:
    """Returns the records, the step's settings and its first draws."""
    now = dpsgd_step.step()
    return {
        "records": [[round(x, 6), round(y, 6)] for x, y in toy.records()],
        "odd": toy.ODD,
        "at": dpsgd_step.AT,
        "sample_rate": dpsgd_step.SAMPLE_RATE,
        "expected": dpsgd_step.EXPECTED_BATCH_SIZE,
        "bound": dpsgd_step.MAX_GRAD_NORM,
        "noise_multiplier": dpsgd_step.NOISE_MULTIPLIER,
        "start": {  # of the sliders, which count doublings
            "bound": math.log2(dpsgd_step.MAX_GRAD_NORM),
            "noise": round(math.log2(dpsgd_step.NOISE_MULTIPLIER), 3),
        },
        "learning_rate": LEARNING_RATE,
        "steps": SUB_STEPS,
        "drawn": now.drawn,
        "network": real_step.data(),
        "network_summary": real_step.summary(),
        "noise": [[round(a, 4), round(b, 4)] for a, b in now.noise],
    }


WIDGET = Widget(
    slug="microscope",
    title="One step under the microscope",
    picture=picture,
    data=data,
    controls={
        "bound": "Clipping bound C",
        "noise": "Noise multiplier σ",
        "step": "Sub-step",
        "draws": "New noise and new batches",
    },
    starts={
        "bound": (Span(0.25, 4, doublings=True),),
        "noise": (Span(0.25, 4, doublings=True),),
        "step": (Choices(tuple(range(len(SUB_STEPS)))),),
    },
)
