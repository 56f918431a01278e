import math

import pytest
import torch

from dpsgd_explorer.training.datasets import adult
from dpsgd_explorer.training.datasets.registry import load

ATTRIBUTES = adult.described(adult.DESCRIPTION.read().decode())
ANSWERS = {
    "age": "39",
    "workclass": "State-gov",
    "fnlwgt": "77516",
    "education": "Bachelors",
    "education-num": "13",
    "marital-status": "Never-married",
    "occupation": "?",
    "relationship": "Not-in-family",
    "race": "White",
    "sex": "Male",
    "capital-gain": "2174",
    "capital-loss": "0",
    "hours-per-week": "40",
    "native-country": "United-States",
}


def encoded(income="<=50K", **changes):
    row = [*(ANSWERS | changes).values(), income]
    features, labels = adult.encode([row], ATTRIBUTES)
    return features[0], int(labels[0])


def expected_columns():
    """The unscaled row of ANSWERS, written out from the table in adult's docstring."""
    columns = []
    for name, listed in ATTRIBUTES.items():
        if listed:
            columns += [float(ANSWERS[name] == value) for value in [*listed, "?"]]
        for threshold in adult.THRESHOLDS.get(name, ()):
            columns.append(float(int(ANSWERS[name]) >= threshold))
        if name.startswith("capital"):
            columns.append(math.log(1 + int(ANSWERS[name])) / math.log(100_001))
    return torch.tensor(columns)


def test_the_description_lists_the_attributes_in_the_order_of_the_answers():
    assert list(ATTRIBUTES) == list(ANSWERS)
    assert ATTRIBUTES["sex"] == ["Female", "Male"]
    assert ATTRIBUTES["age"] == []
    assert len(ATTRIBUTES["native-country"]) == 41


def test_a_row_is_its_columns_scaled_to_length_one():
    columns = expected_columns()
    torch.testing.assert_close(encoded()[0], columns / columns.norm())


def test_the_sampling_weight_is_left_out():
    assert torch.equal(encoded()[0], encoded(fnlwgt="1")[0])


@pytest.mark.parametrize("name", [n for n in ATTRIBUTES if n != "fnlwgt"])
def test_every_other_attribute_counts(name):
    other = {"capital-gain": "99999", "capital-loss": "4356"}.get(name)
    other = other or (ATTRIBUTES[name][-1] if ATTRIBUTES[name] else "99")
    if other == ANSWERS[name]:
        other = ATTRIBUTES[name][0]
    assert not torch.equal(encoded()[0], encoded(**{name: other})[0])


@pytest.mark.parametrize(
    ("income", "label"), [("<=50K", 0), ("<=50K.", 0), (">50K", 1), (">50K.", 1)]
)
def test_labels_are_read_with_and_without_a_full_stop(income, label):
    assert encoded(income)[1] == label


def test_features_of_a_row_do_not_depend_on_other_rows():
    rows = [[*(ANSWERS | {"age": str(age)}).values(), ">50K"] for age in (17, 90)]
    together, _ = adult.encode(rows, ATTRIBUTES)
    alone, _ = adult.encode(rows[:1], ATTRIBUTES)
    assert torch.equal(together[0], alone[0])


def test_rows_have_length_one_and_shares_of_the_rich_are_the_published_ones():
    train, test = load("adult")
    for part in (train, test):
        lengths = part.inputs.double().norm(dim=1)
        torch.testing.assert_close(lengths, torch.ones_like(lengths), atol=1e-6, rtol=0)
    # adult.names: 23.93 % of all 48,842 records earn more than 50,000 dollars
    rich = (int(train.targets.sum()) + int(test.targets.sum())) / 48_842
    assert round(100 * rich, 2) == 23.93
