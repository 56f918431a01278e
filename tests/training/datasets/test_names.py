"""Names are drawn by the census' frequencies, the same everywhere."""

import hashlib
from collections import Counter

import torch

from dpsgd_explorer.training.datasets import names

DIGEST = "2214e53cdbf4343de4741e2f508a40008218dee6c207478a9325f97f0b854aac"


def letters(row):
    """The name of a record."""
    return "".join(chr(ord(names.BLANK) + place) for place in row).lstrip(names.BLANK)


def lists():
    return [names.frequencies(file.read().decode()) for file in names.FILES]


def test_persons_are_the_same_everywhere():
    train, train_labels, test, test_labels = names.load()
    every = torch.cat([train, test]).numpy()
    assert hashlib.sha256(every.astype("uint8").tobytes()).hexdigest() == DIGEST
    for labels in (train_labels, test_labels):
        assert torch.bincount(labels).tolist() == [len(labels) // 2] * 2


def test_the_lists_are_those_of_the_census():
    male, female = lists()
    assert (len(male), len(female)) == (1219, 4275)
    assert (male["JAMES"], female["MARY"], female["ANGELINA"]) == (3318, 2629, 37)


def test_each_person_has_a_name_of_their_list_as_often_as_it_is_counted():
    """Within six standard deviations of the mean, for the ten commonest names."""
    inputs, labels, _, _ = names.load()
    for label, listed in enumerate(lists()):
        drawn = Counter(letters(row) for row in inputs[labels == label].tolist())
        assert set(drawn) <= set(listed)
        count, all_of_them = drawn.total(), sum(listed.values())
        for name in sorted(listed, key=listed.__getitem__)[-10:]:
            share = listed[name] / all_of_them
            spread = (count * share * (1 - share)) ** 0.5
            assert abs(drawn[name] - count * share) < 6 * spread


def test_a_name_ends_at_the_last_place():
    assert names.encode("ANN") == [0] * 8 + [1, 14, 14]
    longest = max((name for of in lists() for name in of), key=len)
    assert len(longest) == names.LENGTH
    assert letters(names.encode(longest)) == longest
