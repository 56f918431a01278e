"""How the mutations of layer rules are written down."""

from tests.dp.mutations.patches import Mutation


def every_way(kind):
    """Return the test of all ways of one kind of layer."""
    name = "test_every_way_is_that_of_one_backward_a_sample"
    return f"layers/test_layer_rules.py::{name}[{kind}]"


def pinned(case):
    """Return the test of one case of test_pinned_cases.py."""
    name = "test_every_way_is_that_of_one_backward_a_sample"
    return f"layers/test_pinned_cases.py::{name}[{case}]"


def use(kind, mode):
    """Return the test of one network and mode of engines/test_coverage.py."""
    name = "test_parameters_are_reached_however_they_are_used"
    return f"engines/test_coverage.py::{name}[{kind}-{mode}]"


def as_many(kind):
    """Return the test with as many samples as positions."""
    name = "test_as_many_samples_as_positions_are_not_confused"
    return f"engines/test_coverage.py::{name}[{kind}]"


def broken(file, test, *edits):
    """Return {what is wrong: mutation} of one file."""
    return {
        name: Mutation(name, ((file, old, new),), own or (test,))
        for name, old, new, *own in edits
    }
