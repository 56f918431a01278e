"""A search by the quick accountants that the last one confirms."""

from types import SimpleNamespace

import pytest

from dpsgd_explorer.accounting.target import Target


@pytest.mark.parametrize(("most", "found"), [(10, 10), (9, 20), (0, 20)])
def test_what_the_last_one_does_not_confirm_it_searches_itself(most, found):
    searched = []

    def search(one):
        searched.append(one)
        return 10 * one

    def spent(one, setting):
        assert one == 2
        return setting

    both = SimpleNamespace(searchers=lambda _relation, *, quick: (1, 2))
    assert Target(most, 1e-5, both, None, most).search(search, spent) == found
    assert searched == ([1] if found == 10 else [1, 2])
