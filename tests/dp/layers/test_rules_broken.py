"""Rules that are broken on purpose turn their tests red."""

import pytest

from dpsgd_explorer.dp.layers import RULES as TABLE
from tests.dp.mutations.arena import FAILED, PASSED, results
from tests.dp.mutations.rules import QUICK, RULES

#: Rules that have no name of their own in the table of mutations.
UNDER = {
    **{f"Conv{n}d": "Conv" for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": "ConvTranspose" for n in (1, 2, 3)},
    **{f"InstanceNorm{n}d": "InstanceNorm" for n in (1, 2, 3)},
}
FIRST = {rule: RULES[rule][0].name for rule in QUICK}
REST = [
    (rule, each.name)
    for rule, bugs in RULES.items()
    for each in bugs
    if FIRST.get(rule) != each.name
]


def test_every_rule_is_broken_in_three_ways_or_more():
    for kind in TABLE:
        name = UNDER.get(kind.__name__, kind.__name__)
        assert len(RULES[name]) >= 3
    assert all(len(bugs) >= 3 for bugs in RULES.values())


@pytest.mark.parametrize(
    "bugs",
    [
        pytest.param(list(FIRST.items()), id="one of each of some rules"),
        pytest.param(REST, id="all", marks=pytest.mark.long("mutation of every rule")),
    ],
)
@pytest.mark.timeout(900)
def test_a_broken_rule_turns_its_tests_red(bugs):
    sound, *found = results([f"{rule}: {name}" for rule, name in bugs])
    assert sound.code == PASSED, sound.output
    seen = {bug: result.code for bug, result in zip(bugs, found, strict=True)}
    assert seen == dict.fromkeys(seen, FAILED)
    assert len(seen) == len(bugs)
