"""The pictures that chapters draw, apart from those of widgets."""

from dpsgd_explorer.web.hub.chapters.page import MODULES


def chapter_pictures():
    """Return {name: function} of all pictures; a thumbnail has its chapter's slug."""
    thumbnails = {slug: module.thumbnail for slug, module in MODULES.items()}
    pictures = {
        name: getattr(module, name)
        for module in MODULES.values()
        for name in module.__all__
        if name.endswith("_picture")
    }
    return thumbnails | {
        name: draw for name, draw in pictures.items() if draw not in thumbnails.values()
    }
