"""Record of a lab."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flask import Blueprint
from flask.typing import ResponseReturnValue

View = Callable[[], ResponseReturnValue]


@dataclass(frozen=True, kw_only=True)
class Lab:
    """One lab.

    Attributes:
        slug: Name in addresses.
        title: Name on pages.
        question: The question that the lab answers.
        summary: Contents of the page, in one sentence.
        page: View of the page.
        parts: Views of parts of the page, by name in addresses.
        api: API routes of the lab, None without any.
    """

    slug: str
    title: str
    question: str
    summary: str
    page: View
    parts: Mapping[str, View] = field(default_factory=dict)
    api: Blueprint | None = None

    @property
    def name(self) -> str:
        """Name of the page's endpoint in the blueprint of labs."""
        return self.slug.replace("-", "_")

    def add_to(self, blueprint: Blueprint) -> None:
        """Adds the page and its parts to the blueprint of all labs."""
        address = f"/{self.slug}/"
        blueprint.add_url_rule(address, self.name, self.page)
        for name, view in self.parts.items():
            blueprint.add_url_rule(address + name, f"{self.name}_{name}", view)
