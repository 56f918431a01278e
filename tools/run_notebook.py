"""Run examples/linear_regression.ipynb without Jupyter, and store its printed output.

Run as ``python -m tools.run_notebook``.  Charts are not stored; Jupyter creates them.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "examples" / "linear_regression.ipynb"


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Runs the code cells in order; returns the variables at the end.

    Replaces the outputs in ``notebook`` with the printed output of each cell.
    """
    variables: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = compile("".join(cell["source"]), f"cell {number}", "exec")
            exec(code, variables)
        cell["execution_count"] = number
        cell["outputs"] = _stream(printed.getvalue())
    return variables


def _stream(text: str) -> list[dict[str, Any]]:
    if not text:
        return []
    lines = text.splitlines(keepends=True)
    return [{"name": "stdout", "output_type": "stream", "text": lines}]


def main() -> None:
    """Runs the notebook and writes it with its outputs."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    run(notebook)
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
