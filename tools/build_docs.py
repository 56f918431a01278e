"""Builds the documentation: ``python -m tools.build_docs [FOLDER]``.

Sphinx's warnings are errors.  After the build, every link between pages is followed.
No page may load anything from another host or contain an inline script or style,
because the website serves the pages at ``/docs/`` under its own content security
policy.  The folder, ``built_docs`` by default, is replaced only if there are no
problems.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "built_docs"
STRICT = ("--fail-on-warning", "--keep-going", "--quiet", "--fresh-env")


# The theme writes one script, one style element and style attributes into each page.
INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
STYLE_ATTRIBUTE = re.compile(r' style="(opacity|display): ([\w%]+);?"')
LOADED = {
    "script": '<script src="{}"></script>',
    "style": '<link rel="stylesheet" href="{}">',
}
SUFFIXES = {"script": ".js", "style": ".css"}
# Sphinx lists the arguments of a long call in a definition list without terms, which is
# invalid HTML.
ARGUMENTS = re.compile(r"\(</span>\s*<dl>(.*?)</dl>", re.DOTALL)
ARGUMENT = re.compile(r"<dd>(.*?)</dd>", re.DOTALL)
# Accessibility that the theme lacks: a keyboard must reach each box that scrolls, and a
# screen reader needs names of the two sidebars and levels of their headings.
REPAIRS = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<div class="formula">': '<div class="formula" tabindex="0">',
    'role="heading"': 'role="heading" aria-level="2"',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="This page">',
}


class Page(HTMLParser):
    """A built page: anchors, links, files that it loads, and inline elements."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.inline: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if (
            "style" in values
            or tag == "style"
            or (tag == "script" and "src" not in values)
        ):
            self.inline.append(self.get_starttag_text() or tag)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in ("canonical", "author"):
            self.loaded.append(values.get("href", ""))
        elif tag != "a" and "src" in values:
            self.loaded.append(values["src"])


def problems(folder: Path) -> list[str]:
    """Returns a line for each broken link and each file of another host."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        found += [f"{name}: {tag} must be in a file." for tag in page.inline]
        found += [
            f"{name}: {address} is loaded from another host."
            for address in page.loaded
            if _is_outside(address) and not address.startswith("data:")
        ]
        found += [
            f"{name}: the link {address} leads nowhere."
            for address in [*page.links, *page.loaded]
            if not _is_outside(address) and not _resolves(address, path, pages)
        ]
    return found


def _is_outside(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc)


def _resolves(address: str, path: Path, pages: dict[Path, Page]) -> bool:
    """If True, the file exists and the page has the anchor."""
    parts = urlsplit(address)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target not in pages or anchor in pages[target].anchors


def finish(folder: Path) -> None:
    """Moves inline scripts and styles into files; adds what assistive devices need."""
    for path in folder.rglob("*.html"):
        top = "../" * (len(path.relative_to(folder).parts) - 1)

        def moved(match: re.Match[str], top: str = top) -> str:
            kind, text = match.groups()
            digest = hashlib.sha256(text.encode()).hexdigest()[:12]
            name = f"_static/inline-{digest}{SUFFIXES[kind]}"
            (folder / name).write_text(text, "utf-8")
            return LOADED[kind].format(top + name)

        text = INLINE.sub(moved, path.read_text("utf-8"))
        text = ARGUMENTS.sub(_as_blocks, text)
        text = STYLE_ATTRIBUTE.sub(r' \1="\2"', text)
        for old, new in REPAIRS.items():
            text = text.replace(old, new)
        path.write_text(text, "utf-8")


def _as_blocks(match: re.Match[str]) -> str:
    """Returns the arguments of a call, one block each."""
    blocks = ARGUMENT.sub(r'<span class="argument">\1</span>', match[1])
    return f"(</span>{blocks}"


def build(target: Path) -> list[str]:
    """Builds into a folder; returns problems, and then does not change the folder."""
    with tempfile.TemporaryDirectory(prefix="docs-") as workshop:
        pages = Path(workshop) / "html"
        doctrees = Path(workshop) / "doctrees"
        options = [*STRICT, "-b", "html", "-d", str(doctrees)]
        if build_main([*options, str(ROOT / "docs"), str(pages)]):
            return ["Sphinx has warnings; they are above."]
        (pages / ".buildinfo").unlink()
        finish(pages)
        if found := problems(pages):
            return found
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(pages, target)
    return []


def main(target: str = str(TARGET)) -> int:
    """Builds, prints problems, and returns the exit code."""
    found = build(Path(target))
    print("\n".join(found) if found else f"The documentation is in {target}.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
