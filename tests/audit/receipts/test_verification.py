"""Every figure of a receipt is found if it is edited, or listed as not checked."""

import copy
import json

import numpy as np
import pytest

from dpsgd_explorer.accounting.auditing.evidence import Evidence
from dpsgd_explorer.audit.receipts.layout import VERSION
from dpsgd_explorer.audit.receipts.verification import FREE_OPTIONS, verify_receipt
from dpsgd_explorer.dp import receipt_text
from dpsgd_explorer.dp.ledger import receipt as written
from dpsgd_explorer.errors import ReceiptError
from tests.audit.receipts.receipts import SORTS, usual

WITH_CANARIES = (
    *(name for name in SORTS if name.startswith("audited")),
    "secure, with lost steps",
)


@pytest.fixture(scope="module")
def receipts():
    made = {name: make() for name, make in SORTS.items()}
    return {name: json.loads(json.dumps(receipt)) for name, receipt in made.items()}


def places(value, path=""):
    """Yield the place of every value that is no table and no list, and of each list."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from places(inner, f"{path}[{i}]")
    else:
        yield path


def split(path):
    return [
        int(x) if x.isdigit() else x
        for x in path.replace("[", ".").replace("]", "").split(".")
    ]


def edited(receipt, path, change):
    """Return a copy in which one value is changed."""
    made = copy.deepcopy(receipt)
    *way, last = split(path)
    inside = made
    for name in way:
        inside = inside[name]
    inside[last] = change(inside[last])
    return made


def other(value):
    """Return another value of the same kind."""
    if value is None:
        return 1
    if isinstance(value, str):
        return value[:-1] + ("A" if value[-1:] != "A" else "B")
    if isinstance(value, int):
        return value + 1
    return value * 1.001 or 0.5


def objection(receipt):
    """Return the places that do not fit, and those that are not checked."""
    try:
        findings = verify_receipt(receipt)
    except ReceiptError as error:
        return [error.figure], {}
    return [figure.path for figure in findings.wrong], findings.unchecked


@pytest.mark.parametrize("sort", SORTS)
def test_a_receipt_as_it_was_written_fits(sort, receipts):
    findings = verify_receipt(receipts[sort])
    assert findings.wrong == []
    assert len(findings.figures) >= 18


@pytest.mark.parametrize("sort", [name for name in SORTS if name not in WITH_CANARIES])
def test_an_edited_figure_is_found_or_listed(sort, receipts):
    receipt = receipts[sort]
    for path in places(receipt):
        wrong, unchecked = objection(edited(receipt, path, other))
        assert wrong or any(path.startswith(place) for place in unchecked), path


LONG = pytest.mark.long("real runs")


@pytest.mark.parametrize(
    "change",
    [other, *(pytest.param(x, marks=LONG) for x in (lambda v: None, lambda v: "x"))],
)
@pytest.mark.parametrize(
    "sort",
    [
        "audited",
        pytest.param("audited, two engines", marks=LONG),
        pytest.param("audited, the second of two engines", marks=LONG),
    ],
)
def test_an_edited_figure_of_an_audit_is_found_or_listed(change, sort, receipts):
    receipt = receipts[sort]
    for path in places({"audit": receipt["audit"]}):
        wrong, unchecked = objection(edited(receipt, path, change))
        assert wrong or any(path.startswith(place) for place in unchecked), path


@pytest.mark.parametrize("sort", [name for name in SORTS if name not in WITH_CANARIES])
def test_a_missing_or_further_figure_is_named(sort, receipts):
    receipt = receipts[sort]
    for path in places(receipt):
        *way, name = split(path)
        if not isinstance(name, str) or way[:1] == ["options"]:
            continue
        less, more = copy.deepcopy(receipt), copy.deepcopy(receipt)
        inside, further = less, more
        for step in way:
            inside, further = inside[step], further[step]
        value = inside.pop(name)
        further["more"] = value
        optional = path in ("seed", "done[0].count_noise_multiplier")
        assert optional or objection(less)[0], path
        assert any(
            "more" in place or "epsilons" in place for place in objection(more)[0]
        )


def test_what_is_left_unchecked_is_little(receipts):
    findings = verify_receipt(receipts["usual"])
    # Other tests of this process may have used the seed, of which a receipt warns.
    others = ("options.", "warnings")
    left = {place for place in findings.unchecked if not place.startswith(others)}
    sizes = [f"not_private.batch_sizes.{x}" for x in ("samples", "smallest", "largest")]
    sizes.append("not_private.batch_sizes.empty")
    notes = ["loss", "noise", "sampling", "proof", "seed", "world_size"]
    assert left == {*sizes, *notes, "told.planned_steps"}
    places = [place for place in findings.unchecked if "warnings" not in place]
    options = {place.removeprefix("options.") for place in places} - left
    assert {name for name in options if "." not in name} <= {*FREE_OPTIONS, *left}


@pytest.mark.parametrize(
    ("edit", "figure"),
    [
        (lambda r: r["done"][0].update(steps=3), "told.steps"),
        (lambda r: r["done"][0].update(noise_draws=3), "done[0].noise_draws"),
        (lambda r: r["done"][0].update(noise_multiplier=0.75), "noise_multiplier"),
        (lambda r: r["told"].update(noise_multiplier=3.0), "noise_multiplier"),
        (lambda r: r["told"].update(delta=1e-2), "epsilon"),
        (lambda r: r["told"].update(accountant="rdp"), "epsilon"),
        (lambda r: r["told"].update(accountant="mine"), "told.accountant"),
        (lambda r: r["told"].update(sampling="fixed"), "told.sampling"),
        (lambda r: r.update(epsilon=None), "epsilon"),
        (lambda r: r.update(version=VERSION + 1), "version"),
        (lambda r: r.pop("version"), "version"),
        (lambda r: r.update(done=[]), "told.steps"),
        (lambda r: r.update(done=r["done"] * 2), "told.steps"),
        (lambda r: r.update(seed=True), "seed"),
        (lambda r: r["told"].update(steps=-4), "told.steps"),
        (lambda r: r["told"].update(sample_size=0), "told.sample_rate"),
        (lambda r: r["options"].update(noise="secure"), "seed"),
        (lambda r: r["options"].update(noise_schedule={"name": "wavy"}), "options"),
        (lambda r: r["options"].update(sampling="unchecked"), "options.sampling"),
        (lambda r: r["not_private"]["batch_sizes"].update(samples=0), "samples"),
        (lambda r: r.update(told=[]), "told"),
        (lambda r: r.update(chosen_bounds=[["x"]]), "options.clipping_schedule"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(edit, figure, receipts):
    receipt = copy.deepcopy(receipts["usual"])
    edit(receipt)
    wrong, _ = objection(receipt)
    assert any(place.endswith(figure) for place in wrong), wrong


def test_another_bound_than_the_scores_prove_is_named():
    receipt = usual(audit=300, noise_multiplier=1.0)
    assert receipt["audit"]["epsilon_lower"] > 0.5
    assert verify_receipt(receipt).wrong == []
    scores = Evidence.from_data(
        receipt["audit"]["scores"], receipt["audit"]["joined"], 300
    )
    other_coins = Evidence(scores.values, np.roll(scores.joined, 1)).as_data()
    receipt["audit"] |= other_coins
    places = [figure.path for figure in verify_receipt(receipt).wrong]
    assert "audit.epsilon_lower" in places
    assert "audit.others.one run" in places


def test_the_part_of_the_canaries_is_in_the_printed_receipt(receipts):
    assert "audit: 8 canaries prove epsilon >= 0" in receipt_text(receipts["audited"])
    assert "audit:" not in receipt_text(receipts["usual"])


def test_the_version_that_is_written_is_the_one_that_is_checked():
    assert written.VERSION == VERSION


def test_rounded_scores_prove_no_more():
    rng = np.random.default_rng(3)
    values, joined = rng.normal(size=1000) * 1e3, rng.random(1000) < 0.5
    values[:2] = 1e300, -1e300
    weaker = Evidence.rounded(values, joined)
    [found] = weaker.values
    assert (found[joined] <= np.maximum(values[joined], -1e38)).all()
    assert (found[~joined] >= np.minimum(values[~joined], 1e38)).all()
    assert np.allclose(found[2:], values[2:], rtol=2e-7)
    again = Evidence.from_data(**weaker.as_data(), canaries=1000)
    assert np.array_equal(again.values, weaker.values)
    assert np.array_equal(again.joined, joined)
