"""How batches are drawn, asked by HTTP."""

import time

import pytest

from dpsgd_explorer import accounting
from tests.in_order import in_order
from tests.web.api.test_privacy import API, RUN, ask, truth_of
from tests.web.conftest import error_of

CUT = {"sampling": "truncated_poisson", "sample_size": 5000, "max_batch_size": 60}
FIXED = {"sampling": "fixed_size", "neighboring_relation": "replace_one"}


def test_batches_that_are_cut_are_answered_with_their_sizes(client):
    answer = ask(client, "epsilon", **RUN, **CUT)
    sizes = {name: CUT[name] for name in ("sample_size", "max_batch_size")}
    found = accounting.truncated_poisson_epsilon(**RUN, **sizes)
    assert answer.items() >= CUT.items()
    sides = (found.value, found.lower, found.upper, found.status)
    assert tuple(answer[n] for n in ("value", "lower", "upper", "status")) == sides
    assert answer["value"] > truth_of()
    every = ask(client, "epsilon", **RUN, **CUT, accountant="all")
    assert every["epsilons"] == {"exact": answer["epsilon"]}


def test_batches_of_fixed_size_are_answered_from_both_sides_or_by_renyi(client):
    answer = ask(client, "epsilon", **RUN, **FIXED)
    found = in_order(accounting.fixed_size_interval, *RUN.values())
    sides = (found.value, found.lower, found.upper, found.status)
    assert tuple(answer[n] for n in ("value", "lower", "upper", "status")) == sides
    renyi = ask(client, "epsilon", **RUN, **FIXED, accountant="rdp")
    assert (renyi["lower"], renyi["status"]) == (None, "bound")
    assert found.lower < found.upper < renyi["value"]
    assert (answer["sampling"], answer["sample_size"]) == ("fixed_size", None)


@pytest.mark.parametrize(
    ("changed", "field", "says"),
    [
        (CUT | {"sample_size": ""}, "sample_size", "given for sampling 'trunc"),
        (CUT | {"max_batch_size": ""}, "max_batch_size", "given for sampling 'trunc"),
        (CUT | {"sampling": ""}, "sample_size", "left out, sampling 'poisson'"),
        (CUT | FIXED | {"accountant": "rdp"}, "sample_size", "left out"),
        (CUT | {"max_batch_size": 0}, "max_batch_size", "at least 1"),
        (CUT | {"accountant": "rdp"}, "accountant", "must be 'exact'"),
        (FIXED | {"accountant": "gdp"}, "accountant", "must be 'exact' or 'rdp'"),
        ({"sampling": "fixed_size"}, "neighboring_relation", "'replace_one'"),
        ({"sampling": "random_allocation", "sample_rate": 0.3}, "sample_rate", "1/t"),
        ({"sampling": "full_batch"}, "sample_rate", "must be 1"),
        ({"sampling": "shuffled"}, "sampling", "Chua"),
        ({"sampling": "dealt"}, "sampling", "one of poisson, "),
    ],
)
def test_a_sampling_names_what_it_lacks(reading, changed, field, says):
    answer = reading.get(f"{API}/epsilon", query_string=RUN | changed)
    error_of(answer, 422, field, says)


def test_random_allocation_is_answered_at_a_rate_of_one_slot(client):
    run = RUN | {"sample_rate": 1 / 12, "steps": 18}
    answer = ask(client, "epsilon", **run, sampling="random_allocation")
    found = accounting.random_allocation_interval(
        noise_multiplier=RUN["noise_multiplier"],
        slots=12,
        steps=18,
        delta=RUN["delta"],
    )
    assert answer["lower"] <= found.value <= answer["value"] <= 1.002 * found.value
    assert answer["sampling"] == "random_allocation"
    every = ask(
        client, "epsilon", **run, sampling="random_allocation", accountant="all"
    )
    assert every["epsilons"] == {"exact": answer["epsilon"]}


def test_a_question_on_random_allocation_takes_a_second_at_most(client):
    """With few slots a full answer takes seven: this one is a bound."""
    run = {"noise_multiplier": 1.0, "sample_rate": 1 / 2, "steps": 60}
    begin = time.process_time()
    answer = ask(client, "epsilon", **run, delta=1e-10, sampling="random_allocation")
    assert answer["status"] == "bound"
    assert time.process_time() - begin < 5


def test_sampling_is_specified(reading):
    paths = reading.get("/openapi.json").json["paths"]
    asked = {p["name"]: p for p in paths[f"{API}/epsilon"]["get"]["parameters"]}
    assert asked["sampling"]["schema"]["enum"] == list(accounting.SAMPLINGS)
    assert not asked["sample_size"]["required"]
