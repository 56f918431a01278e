"""How Sphinx builds the documentation: ``make docs`` writes ``built_docs/``."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

ROOT = Path(__file__).resolve().parent.parent
# Files at the top of the repository that are pages of project/, too.
PROJECT_PAGES = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
    "CODE_OF_CONDUCT.md": "code-of-conduct",
}
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")
EXTERNAL_LINK = re.compile(r"(?:\]\(|<)(https?://[^)>\s]+)")

project = "DP-SGD Explorer"
copyright = "The DP-SGD Explorer authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["pictures/*"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
# Links such as engines.md#each-engine lead to headings down to this level.
myst_heading_anchors = 4
autodoc_default_options = {"members": True, "inherited-members": True}
# The page of the integrations is built without the libraries that they extend.
autodoc_mock_imports = ["lightning", "transformers"]
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source", "Shape", "Shapes"]
# `make links` leaves out the reader's own machine and invented hosts.
linkcheck_ignore = [r"https?://(127\.0\.0\.1|192\.168\.|([\w-]+\.)*example\.org)"]
linkcheck_timeout = 20
html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
templates_path = ["_templates"]
# The theme's own sidebar, and a link to the website.
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/site.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# Readers get pages; their Markdown is in the repository.
html_copy_source = False
html_show_sourcelink = False
# The search finds names; the pages of an index have style attributes.
html_use_index = False
html_domain_indices = False
# Pages are read offline: formulas are MathML, which needs no script.
html_math_renderer = "mathml"


def show_formula(self: HTML5Translator, node: nodes.math) -> None:
    """Writes a formula inside a line as MathML."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def show_display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Writes a formula on a line of its own as MathML."""
    self.body.append(f'<div class="formula">{convert(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def keep_text(app: Sphinx, document: nodes.document) -> None:
    """Turns links to other parts of the repository into text: the site has no page."""
    for kind in (pending_xref, download_reference):
        for link in list(document.findall(kind)):
            if link.get("refdomain") == "py":
                continue
            page = Path(app.env.doc2path(link["refdoc"]))
            target = (page.parent / link["reftarget"]).resolve()
            if not target.is_relative_to(app.srcdir):
                link.replace_self(link.children)


def read_project_file(app: Sphinx, page: str, source: list[str]) -> None:
    """Gives a page of ``project/`` the text of its file in the repository."""

    def led_from_here(match: re.Match[str]) -> str:
        target = match[1]
        if target in PROJECT_PAGES:
            return f"]({PROJECT_PAGES[target]}.md"
        inside = target.removeprefix("docs/")
        return f"](../{inside}" if inside != target else f"](../../{target}"

    folder, _, name = page.rpartition("/")
    for file, its_page in PROJECT_PAGES.items():
        if (folder, name) == ("project", its_page):
            text = (ROOT / file).read_text("utf-8")
            source[0] = LINK.sub(led_from_here, text)
    if page == "index" and app.builder.name == "linkcheck":
        # README.md is no page of the site, and its links are checked with the others.
        for address in EXTERNAL_LINK.findall((ROOT / "README.md").read_text("utf-8")):
            source[0] += f"\n<{address}>\n"


def is_foreign(
    app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any
) -> bool | None:
    """If True, a member is left out: it is inherited from another package."""
    source = inspect.unwrap(getattr(thing, "fget", None) or thing)
    module = getattr(source, "__module__", None) or "dpsgd_explorer"
    return None if module.startswith("dpsgd_explorer") else True


def setup(app: Sphinx) -> None:
    """Adds the renderer of formulas and the rule for links out of ``docs/``."""
    app.connect("autodoc-skip-member", is_foreign)
    app.connect("source-read", read_project_file)
    app.connect("doctree-read", keep_text, priority=1)  # before files are collected
    app.add_html_math_renderer("mathml", (show_formula, None), (show_display, None))
