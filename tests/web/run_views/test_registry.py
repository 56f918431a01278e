"""Each kind of run has a view, and no view lacks what a page needs of it."""

import pytest

from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.web.labs.engines.view import EnginesView
from dpsgd_explorer.web.run_views import registry


def test_every_kind_has_the_view_of_its_settings(client):
    """Creating the application registers them."""
    assert registry.VIEWS.keys() == KINDS.keys()
    for name, view in registry.VIEWS.items():
        assert view.kind is KINDS[name]
        assert view.config is KINDS[name].config


@pytest.mark.parametrize("name", ["template", "config", "columns", "claims", "title"])
def test_a_view_lacks_nothing_that_a_page_needs(name):
    """Each is abstract: mypy refuses the view, and so does Python."""
    words = {key: value for key, value in vars(EnginesView).items() if key != name}
    bases = EnginesView.__bases__
    with pytest.raises(TypeError, match=f"abstract method '?{name}'?"):
        type("Incomplete", bases, words)()
