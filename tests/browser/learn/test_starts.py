"""Every control of every widget starts where a link says."""

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.registry import WIDGETS

HELD = """(inputs) => inputs.filter((one) => one.type !== "radio" || one.checked)
  .map((one) => Number(one.value))"""


def ends(rule):
    values = rule.values if isinstance(rule, Choices) else (rule.low, rule.high)
    return values[0], values[-1]


@pytest.mark.long("more journeys")
@pytest.mark.parametrize(
    ("slug", "control"),
    [(slug, name) for slug in WIDGETS for name in WIDGETS[slug].starts],
)
def test_a_control_starts_where_a_link_says(open_page, slug, control):
    rules, places = WIDGETS[slug].starts[control], []
    for values in zip(*map(ends, rules), strict=True):
        text = ",".join(f"{value:g}" for value in values)
        page = open_page(f"/embed/{slug}/?{control}={text}")
        figure = page.locator(f"#{slug}")
        expect(figure).to_have_attribute("data-state", "moves")
        inputs = figure.locator(f'[data-control="{control}"] :is(input, select)')
        if inputs.count():
            places.append(inputs.evaluate_all(HELD))
            expected = [
                rule.position(value) for rule, value in zip(rules, values, strict=True)
            ]
            assert places[-1] == pytest.approx(expected)
        else:
            grip = figure.locator(f'[data-grip="{control}"][aria-valuenow]')
            places.append(grip.get_attribute("aria-valuenow"))
    assert places[0] != places[1]
