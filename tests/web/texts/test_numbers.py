"""Numbers that scripts show are formatted in one place, ``static/js/lib/format.js``."""

import re

from dpsgd_explorer.web.http.assets import FRONT_DIR, WEB_DIR

FORMATS = re.compile(r"\.to(?:Fixed|LocaleString|LocaleTimeString)\(|\bIntl\.")
#: Scripts that format numbers for programs (values of elements, styles, settings) or
#: parts of an axis, with the number of lines.
OTHERS = {
    "lib/format.js": None,
    "charts/ticks.js": None,
    "microscope/widget.js": 1,  # value of a slider
    "two_worlds/widget.js": 1,  # value of a slider
    "common/predict.js": 1,  # a length in a style
    "pages/train.js": 1,  # a number again
}


def formatting(script):
    return [line for line in script.splitlines() if FORMATS.search(line)]


def test_no_other_script_formats_a_number_for_people():
    files = [*(FRONT_DIR / "static/js").rglob("*.js"), *WEB_DIR.rglob("*.js")]
    found = {}
    for file in files:
        if lines := formatting(file.read_text(encoding="utf-8")):
            found["/".join(file.parts[-2:])] = lines
    assert set(found) >= {"lib/format.js", "pages/train.js"}
    left = {
        name: lines
        for name, lines in found.items()
        if OTHERS.get(name, 0) is not None and len(lines) != OTHERS.get(name)
    }
    assert left == {}, "use static/js/lib/format.js"
