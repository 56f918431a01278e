"""Rules that are broken on purpose turn their tests red; some now, all by command."""

import pytest

from dpsgd_explorer.dp.layers import RULES as TABLE
from tests.dp.mutations.rules import QUICK, RULES
from tools.break_rules import outcomes

#: Rules that have no name of their own in the table of mutations.
UNDER = {
    "Conv1d": "Conv1d, Conv3d",
    "Conv3d": "Conv1d, Conv3d",
    **{f"ConvTranspose{n}d": "ConvTranspose" for n in (1, 2, 3)},
    **{f"InstanceNorm{n}d": "InstanceNorm" for n in (1, 2, 3)},
}


def test_every_rule_is_broken_in_three_ways_or_more():
    for kind in TABLE:
        name = UNDER.get(kind.__name__, kind.__name__)
        assert len(RULES[name]) >= 3
    assert all(len(mutations) >= 3 for mutations in RULES.values())


@pytest.mark.timeout(300)
def test_a_broken_rule_turns_its_tests_red():
    found = outcomes(QUICK, most=1)
    assert len(found) == len(QUICK)
    assert [each for each in found if not each.red] == []
