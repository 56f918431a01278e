"""Where the odd record of several widgets can start."""

from __future__ import annotations

from dpsgd_explorer.web.forms.starts import Span
from dpsgd_explorer.web.hub.examples import toy_problem as toy

EDGE = 0.05  # of the x range, where scripts do not let the odd record go
RECORD = (Span(toy.X_RANGE[0] + EDGE, toy.X_RANGE[1] - EDGE), Span(*toy.Y_RANGE))
