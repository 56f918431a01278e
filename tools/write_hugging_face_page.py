"""Write the table of architectures in docs/how-to/hugging-face.md, from measurements.

Run as ``python -m tools.write_hugging_face_page``; it needs transformers and peft.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "hugging-face.md"
#: Largest relative error of an exact sum; many models compute in float32 in parts.
TOLERANCE = 1e-4
Measure = Callable[..., float | None]
"""Returns the relative error of a clipped sum; None if the model was rejected."""


def cell(measure: Measure, name: str, way: str) -> str:
    """Return the table's text for a model: the engine whose sum is exact."""
    for engine, text in (("hooks", "exact"), ("microbatch", "`microbatch`")):
        error = measure(name, way, engine)
        if error is None:
            continue
        if not error <= TOLERANCE:
            raise ValueError(f"{name}, {way}: must be exact, got error {error:.1e}")
        return text
    return "rejected"


def main() -> None:
    """Measure all models and write the table."""
    from tests.integrations.architectures import ARCHITECTURES, WAYS, measured

    measure: Measure = measured
    lines = [f"| architecture | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"]
    for name in ARCHITECTURES:
        cells = [cell(measure, name, way) for way in WAYS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    write(PAGE, {"architectures": "\n".join(lines)})


if __name__ == "__main__":
    main()
