"""A small picture in sixteen greys, as inline SVG."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup, escape


def grey_picture(rows: Sequence[str], label: str) -> Markup:
    """Return a picture whose pixels are one hexadecimal digit each, 0 black.

    Args:
        rows: Of equal length, from the top; as the program itself wrote them.
        label: What a reader who does not see it is told.
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
