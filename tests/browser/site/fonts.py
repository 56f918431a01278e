"""Font sets for a browser, so that no machine's own fonts decide a test."""

import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

# Wide letters, narrow letters, high lines: what three families of systems come with.
FONT_SETS = {
    "dejavu": ("DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono"),
    "liberation": ("Liberation Sans", "Liberation Serif", "Liberation Mono"),
    "open sans": ("Open Sans", "Open Sans", "Liberation Mono"),
}
LAST_RESORT = "DejaVu Sans"  # has the signs that the others lack
GENERIC = (
    ("sans-serif", "system-ui", "ui-sans-serif"),
    ("serif", "ui-serif"),
    ("monospace", "ui-monospace"),
)


def write_font_set(families: tuple[str, ...], folder: Path) -> Path:
    """Write a fontconfig file that knows these fonts only; return its path."""
    folders = sorted(
        {where for one in (*families, LAST_RESORT) for where in _folders(one)}
    )
    lines = ['<?xml version="1.0"?>', "<fontconfig>"]
    lines += [f"<dir>{escape(where)}</dir>" for where in folders]
    lines.append(f"<cachedir>{escape(str(folder / 'cache'))}</cachedir>")
    lines.append("<selectfont><rejectfont><pattern/></rejectfont>")
    lines += [
        '<acceptfont><pattern><patelt name="family">'
        f"<string>{one}</string></patelt></pattern></acceptfont>"
        for one in sorted({*families, LAST_RESORT})
    ]
    lines.append("</selectfont>")
    for family, aliases in zip(families, GENERIC, strict=True):
        lines += [
            f'<alias binding="same"><family>{alias}</family>'
            f"<prefer><family>{family}</family></prefer></alias>"
            for alias in aliases
        ]
    # Whatever else is asked for: the first family, then the one with all signs.
    lines += [
        '<match target="pattern"><edit name="family" mode="append_last">'
        f"<string>{one}</string></edit></match>"
        for one in (families[0], LAST_RESORT)
    ]
    lines.append("</fontconfig>")
    path = folder / "fonts.conf"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _folders(family: str) -> set[str]:
    command = ["fc-list", f":family={family}", "--format=%{file}\n"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found, f"no font {family!r}: run tools/system_packages.sh"
    return {str(Path(line).parent) for line in found.splitlines()}
