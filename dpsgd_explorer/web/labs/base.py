"""Record of a lab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
        api: API routes of the lab, None without any.
    """

    slug: str
    title: str
    question: str
    summary: str
    page: View
    api: Blueprint | None = None

    @property
    def name(self) -> str:
        """Name of the page's endpoint in the blueprint of labs."""
        return self.slug.replace("-", "_")

    def add_to(self, blueprint: Blueprint) -> None:
        """Adds the page to the blueprint of all labs."""
        blueprint.add_url_rule(f"/{self.slug}/", self.name, self.page)
