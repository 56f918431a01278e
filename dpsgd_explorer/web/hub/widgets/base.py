"""The record of a widget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.starts import Rules


@dataclass(frozen=True, kw_only=True)
class Widget:
    """One widget.

    Attributes:
        slug: Name in addresses.  The folder has underscores in place of the dashes.
        title: Name on pages.
        picture: Returns the drawing of the first state, for pages without script.
        data: Returns the initial data of the script: finite numbers, texts, lists and
            dicts.
        controls: Label of each control that a teacher's link may hide or lock, by name.
            The template marks them by ``limits.attributes(name)``, the script by
            ``control`` of a grip.
        starts: Allowed starting values of the controls, by name.
        helpers: Functions that its template calls, by name.
        chapter: Slug of the chapter that explains the widget; see ``hub/registry.py``.
    """

    slug: str
    title: str
    picture: Callable[[], Picture]
    data: Callable[[], dict[str, Any]]
    controls: Mapping[str, str]
    starts: Mapping[str, Rules] = field(default_factory=dict)
    helpers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    chapter: str = ""

    @property
    def rules(self) -> dict[str, list[dict[str, Any]]]:
        """Rules of the starting values, for the script that builds links."""
        return {
            name: [asdict(rule) for rule in rules]
            for name, rules in self.starts.items()
        }

    @property
    def folder(self) -> Path:
        """Folder of the widget."""
        return Path(__file__).parent / self.slug.replace("-", "_")

    @property
    def template(self) -> str:
        """Name of the template."""
        return f"widgets/{self.folder.name}/widget.html"

    @property
    def script(self) -> str:
        """Name of the script module among the published files."""
        return f"js/widgets/{self.folder.name}/widget.js"

    @property
    def style(self) -> str | None:
        """Name of the style sheet among the published files; None without one."""
        if not (self.folder / "widget.css").is_file():
            return None
        return f"js/widgets/{self.folder.name}/widget.css"
