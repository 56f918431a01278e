"""Runs that hypothesis draws, and how many of them a property is tried on."""

import math

from hypothesis import Phase, settings
from hypothesis import strategies as st

NO_SHRINKING = (Phase.explicit, Phase.generate)  # it takes minutes
PROPERTY = settings(
    deadline=None, derandomize=True, max_examples=25, phases=NO_SHRINKING
)
LOG_RATES = st.floats(math.log(1e-6), 0.0)
LOG_NOISES = st.floats(math.log(0.3), math.log(1000))
STEPS = st.integers(1, 10**7)
LOG_DELTAS = st.floats(math.log(1e-15), math.log(1e-2))


@st.composite
def runs(draw):
    """Draw (sample rate, noise multiplier, steps, delta)."""
    return (
        min(math.exp(draw(LOG_RATES)), 1.0),
        math.exp(draw(LOG_NOISES)),
        draw(STEPS),
        math.exp(draw(LOG_DELTAS)),
    )
