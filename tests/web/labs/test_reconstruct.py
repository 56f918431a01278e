"""The lab of reconstruction as it stands before its script: ε of each release."""

import base64

import pytest

from dpsgd_explorer.accounting import epsilon, gaussian_epsilon
from dpsgd_explorer.web.hub.widgets.picture_in_gradient import (
    widget as picture_in_gradient,
)
from dpsgd_explorer.web.labs.reconstruct import page as lab
from tests.web.reading import Page, page_data

LAB = "/labs/reconstruct/"


def number(text):
    return float(text.replace(",", ""))


def test_epsilon_is_that_of_one_release_and_never_below_it():
    for noise, row in zip(lab.NOISE[1:], lab.epsilons()[1:], strict=True):
        spent = gaussian_epsilon(delta=lab.DELTA, noise_multiplier=noise)
        assert spent <= number(row["known"]) <= spent + max(0.01, 0.02 * spent)
        for batch, text in zip(lab.BATCHES, row["secret"], strict=True):
            assert number(text) >= epsilon(
                sample_rate=batch / lab.RECORDS,
                noise_multiplier=noise,
                steps=1,
                delta=lab.DELTA,
            )
            assert number(text) <= number(row["known"])


def test_without_noise_nothing_is_promised_and_more_noise_promises_more():
    first, *rest = lab.epsilons()
    assert {first["known"], *first["secret"]} == {"∞"}
    known = [number(row["known"]) for row in rest]
    assert known == sorted(known, reverse=True)


def test_the_table_and_its_words_stand_without_script(reading):
    text = reading.get(LAB).text
    page = Page(text)
    for row in lab.epsilons():
        assert f'<td class="n">{row["known"]}</td>' in text
    assert "δ = 1e-6" in text
    assert "server’s view of one gradient" in text
    assert text.count('class="badge not-private"') == 1
    sliders = [a for a in page.all("input") if a["type"] == "range"]
    assert [a["name"] for a in sliders] == ["batch", "bound", "noise"]
    assert all(int(a["value"]) <= int(a["max"]) for a in sliders)


def test_the_script_gets_all_that_it_computes_from(reading):
    data = page_data(reading.get(LAB).text)
    assert data["recorded"] == lab.stored()
    assert len(data["epsilons"]) == len(data["noise"])
    pictures = base64.b64decode(data["recorded"]["pictures"])
    assert len(pictures) == 28 * 28 * max(lab.BATCHES)


@pytest.mark.parametrize("model", ["linear", "hidden"])
def test_the_bounds_reach_from_all_gradients_cut_to_none(model):
    norms = lab.stored()["norms"][model]
    assert lab.BOUNDS[0] < min(norms) <= max(norms) < lab.BOUNDS[-1]


def test_a_chapters_picture_is_the_labs_with_the_same_epsilon():
    shown = picture_in_gradient.data()
    pictures = base64.b64decode(lab.stored()["pictures"])
    place = lab.stored()["labels"].index(shown["label"])
    one = pictures[28 * 28 * place : 28 * 28 * (place + 1)]
    assert base64.b64decode(shown["picture"]) == one
    assert shown["epsilons"] == [row["known"] for row in lab.epsilons()]
    found = picture_in_gradient.correlations()
    assert found[0] == pytest.approx(1)
    assert found[:4] == sorted(found[:4], reverse=True)
    assert max(found[-2:]) < 0.3
