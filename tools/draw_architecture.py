"""Draw docs/images/architecture.svg from the imports of the package.

    python -m tools.draw_architecture

One row per layer, the importing layers above the imported ones; one chip per folder
with the number of its modules; one arc per pair of layers, wider for more imports.
"""

from __future__ import annotations

import ast
import html
import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dpsgd_explorer"
WEB = PACKAGE / "web"
#: Folders with a folder for each widget, chapter or lab; each is drawn as one chip.
ROOMS = {WEB / "hub" / "chapters", WEB / "hub" / "widgets", WEB / "labs"}
#: File name of recorders, which are run by hand and never imported.
RECORDER = "record.py"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

WIDTH, MARGIN, BOX_WIDTH = 1080, 16, 800
CHIP_HEIGHT, CHIP_GAP, LETTER = 26, 8, 7.4  # px; a letter of 12 px monospace
TITLE_HEIGHT, ROW_GAP = 34, 18
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1c2330 }
  .name { font-weight: 600; font-size: 15px }
  .chip { font: 12px ui-monospace, monospace }
  .layer { fill: #f4f6fa; stroke: #c3cad6 }
  .folder { fill: #ffffff; stroke: #c3cad6 }
  .arc { fill: none; stroke: #3b6fb6; stroke-opacity: .55 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e9ef }
    .layer { fill: #1b2130; stroke: #46506a }
    .folder { fill: #121722; stroke: #46506a }
    .arc { stroke: #7fb0f5 }
  }
"""


class Layer(NamedTuple):
    """A package at the top of ``dpsgd_explorer``.

    Attributes:
        name: Name of the package.
        summary: First sentence of its docstring.
        folders: (name of a folder, number of its modules), its own modules first.
        imports: Number of import statements per other layer.
    """

    name: str
    summary: str
    folders: list[tuple[str, int]]
    imports: Counter[str]


def layers() -> list[Layer]:
    """Returns the layers, each above every layer that it imports."""
    by_name = {path.parent.name: _layer(path) for path in PACKAGE.glob("*/__init__.py")}

    @cache
    def height(name: str) -> int:
        below = [height(other) for other in by_name[name].imports if other in by_name]
        return 1 + max(below, default=-1)

    return sorted(by_name.values(), key=lambda layer: (-height(layer.name), layer.name))


def draw(rows: list[Layer]) -> str:
    """Return the picture as SVG text."""
    x = MARGIN + 12
    body: list[str] = []
    middle: dict[str, float] = {}
    top = float(MARGIN)
    for layer in rows:
        chips, height = _chips(layer, top + TITLE_HEIGHT)
        body.append(
            f'<rect class="layer" x="{MARGIN}" y="{top}" width="{BOX_WIDTH}" '
            f'height="{TITLE_HEIGHT + height}" rx="8"/>'
            f'<text class="name" x="{x}" y="{top + 22}">{layer.name}</text>'
            f'<text x="{x + 120}" y="{top + 22}">{html.escape(layer.summary)}</text>'
        )
        body.extend(chips)
        middle[layer.name] = top + (TITLE_HEIGHT + height) / 2
        top += TITLE_HEIGHT + height + ROW_GAP
    arcs = [arc for layer in rows for arc in _arcs(layer, middle)]
    marker = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#3b6fb6"/></marker>'
    )
    title = "Layers of the package and their imports"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" '
        f'role="img" aria-label="{title}"><title>{title}</title>'
        f"<style>{STYLE}</style><defs>{marker}</defs>\n"
        + "\n".join(body + arcs)
        + "\n</svg>\n"
    )


def _layer(init: Path) -> Layer:
    folder = init.parent
    summary = ast.get_docstring(ast.parse(init.read_text("utf-8"))) or ""
    inside = sorted({path.parent for path in folder.rglob("*.py")})
    folders = [
        (place.relative_to(PACKAGE).as_posix(), count)
        for place in inside
        if place.parent not in ROOMS and (count := _modules_in(place))
    ]
    imports = Counter(
        name
        for path in folder.rglob("*.py")
        if path.name != RECORDER
        for name in _imported(path)
        if name != folder.name and (PACKAGE / name / "__init__.py").exists()
    )
    sentence = summary.partition("\n")[0].replace("``", "")
    return Layer(folder.name, sentence, folders, imports)


def _modules_in(folder: Path) -> int:
    found = folder.rglob("*.py") if folder in ROOMS else folder.glob("*.py")
    return sum(path.name != "__init__.py" for path in found)


def _imported(path: Path) -> list[str]:
    """Return the layer of each import of this package in one file."""
    prefix = f"{PACKAGE.name}."
    modules = [
        node.module
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
    ]
    return [name.split(".")[1] for name in modules if name.startswith(prefix)]


def _chips(layer: Layer, top: float) -> tuple[list[str], float]:
    """Return the folders of a layer as chips, and their total height."""
    parts, left = [], float(MARGIN + 12)
    first = top
    for name, count in layer.folders:
        text = f"{name} {count}"
        width = len(text) * LETTER + 16
        if left + width > MARGIN + BOX_WIDTH - 12:
            left, top = float(MARGIN + 12), top + CHIP_HEIGHT + CHIP_GAP
        parts.append(
            f'<rect class="folder" x="{left:.0f}" y="{top}" width="{width:.0f}" '
            f'height="{CHIP_HEIGHT}" rx="5"/>'
            f'<text class="chip" x="{left + 8:.0f}" y="{top + 17}">{text}</text>'
        )
        left += width + CHIP_GAP
    return parts, top - first + CHIP_HEIGHT + 10


def _arcs(layer: Layer, middle: dict[str, float]) -> list[str]:
    """Returns an arc from the layer to each layer that it imports."""
    start, right = middle[layer.name], MARGIN + BOX_WIDTH
    arcs = []
    for name, count in sorted(layer.imports.items()):
        end = middle[name]
        reach = right + 30 + (end - start) * 0.29
        arcs.append(
            f'<path class="arc" stroke-width="{1 + math.log2(count) / 2:.1f}" '
            f'marker-end="url(#tip)" d="M{right} {start:.0f}C{reach:.0f} {start:.0f} '
            f'{reach:.0f} {end:.0f} {right + 2} {end:.0f}">'
            f"<title>{layer.name} imports {name}: {count}</title></path>"
        )
    return arcs


if __name__ == "__main__":
    PICTURE.write_text(draw(layers()), encoding="utf-8")
