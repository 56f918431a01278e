"""Write the table of architectures in docs/how-to/hugging-face.md, from measurements.

Run as ``python -m tools.write_hugging_face_page``; it needs transformers and peft.
"""

from __future__ import annotations

from pathlib import Path

from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "hugging-face.md"


def main() -> None:
    """Measure all models and write the table."""
    from tests.integrations.architectures import ARCHITECTURES, WAYS, cell

    lines = [f"| architecture | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"]
    for name in ARCHITECTURES:
        cells = [cell(name, way) for way in WAYS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    write(PAGE, {"architectures": "\n".join(lines)})


if __name__ == "__main__":
    main()
