"""Inline SVG of a small image with sixteen grey levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup, escape


def grey_picture(rows: Sequence[str], label: str) -> Markup:
    """Returns an SVG of pixels that are one hexadecimal digit each; 0 is black.

    Args:
        rows: Rows of equal length from the top.  They are not escaped, so they must
            come from the program.
        label: Text alternative.
    """
    runs: dict[str, list[str]] = defaultdict(list)
    for y, row in enumerate(rows):
        x = 0
        for shade, pixels in groupby(row):
            width = len(list(pixels))
            if shade != "0":
                runs[shade].append(f"M{x} {y}h{width}v1h-{width}z")
            x += width
    width, height = len(rows[0]), len(rows)
    paths = "".join(
        f'<path fill="#{shade * 3}" d="{"".join(runs[shade])}"/>'
        for shade in sorted(runs)
    )
    return Markup(
        f'<svg class="grey-picture" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}" shape-rendering="crispEdges">'
        f'<path fill="#000" d="M0 0h{width}v{height}h-{width}z"/>{paths}</svg>'
    )
