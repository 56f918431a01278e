"""The trainer as the server sends it: before, or without, any script."""

import re
from html import unescape

import pytest

from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.forms.fields import form_fields
from dpsgd_explorer.web.forms.form import read_form
from dpsgd_explorer.web.recorded.runs import recorded
from tests.web.conftest import SMALL
from tests.web.reading import page_data


@pytest.fixture
def get(client):
    def get(**query):
        response = client.get("/train/", query_string=query)
        assert response.status_code == 200
        return response.text

    return get


def attributes_of(page, name):
    """Return the opening tag of the control with a name."""
    return re.search(rf'<(?:input|select)[^>]*\bname="{name}"[^>]*>', page)[0]


def test_every_setting_has_a_control_with_a_label_and_help(get):
    page = get()
    for name, field in form_fields(TrainingConfig).items():
        control = attributes_of(page, name)
        if field.kind == "boolean":
            assert f'aria-labelledby="{name}-label"' in page
        else:
            assert f'<label for="{name}"' in page
            assert f'aria-describedby="{name}-help {name}-error"' in control
        assert f'id="{name}-help"' in page
        if field.kind != "choice":
            assert field.help in unescape(page)


def test_what_the_set_up_spends_stands_on_the_page_with_its_terms(get):
    page = get(target_epsilon="2", delta="1e-6")
    assert '<span data-plan="epsilon">2.00</span>' in page
    assert '<span data-plan="delta">1e-6</span>' in page
    assert 'one record, <span data-plan="sampling">Poisson sampling</span>' in page


def test_a_wrong_value_is_shown_at_its_field_and_the_rest_is_kept(get):
    page = get(learning_rate="-3", seed="41", max_grad_norm="soft")
    for name, typed in {"learning_rate": "-3", "max_grad_norm": "soft"}.items():
        control = attributes_of(page, name)
        assert f'value="{typed}"' in control
        assert 'aria-invalid="true"' in control
    message = re.search(r'id="learning_rate-error">(.*?)</p>', page)[1]
    assert message == "Learning rate must be greater than 0, got -3."
    assert 'value="41"' in attributes_of(page, "seed")
    assert '<span data-plan="epsilon">–</span>' in page


def test_what_was_typed_cannot_become_markup(get):
    page = get(learning_rate='"><script>alert(1)</script>', other="<b>")
    assert "<script>alert" not in page
    assert "<b>" not in page


def test_the_models_on_offer_fit_the_data_set(get):
    select = re.search(r'<select id="model".*?</select>', get(**SMALL), re.DOTALL)[0]
    assert re.findall(r'option value="(\w+)"', select) == ["logistic"]


def test_presets_are_links_that_carry_a_whole_set_up(get):
    page = get(target_epsilon="1")
    links = re.findall(r'<a href="\?([^"]*)" data-preset="([\w-]+)"([^>]*)>', page)
    assert [slug for _, slug, _ in links] == [preset.slug for preset in PRESETS]
    current = [slug for _, slug, rest in links if "aria-current" in rest]
    assert current == ["mnist-strict"]
    for address, slug, _ in links:
        query = dict(pair.split("=") for pair in unescape(address).split("&"))
        assert query == page_data(page)["presets"][slug]
        assert not read_form(TrainingConfig, query).errors


def test_the_script_gets_the_plan_of_the_settings(get):
    data = page_data(get(**SMALL))
    assert data["config"]["expected_batch_size"] == SMALL["expected_batch_size"]
    assert data["plan"]["steps"] == SMALL["steps"]
    assert data["plan"]["curve"]["steps"][-1] == SMALL["steps"]
    assert page_data(get(steps="0"))["plan"] is None


def test_nothing_inline_that_the_content_policy_would_refuse(get):
    page = get()
    assert not re.search(r"\sstyle=|\son\w+=", page)
    for tag in re.findall(r"<script[^>]*>", page):
        assert "src=" in tag or 'type="application/json"' in tag


def test_each_label_and_description_points_to_something_that_is_there(get):
    page = get()
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    names = r"(?<!-)\bfor|aria-describedby|aria-labelledby|aria-controls"
    pattern = rf'(?:{names})="([^"]+)"'
    wanted = {word for text in re.findall(pattern, page) for word in text.split()}
    assert wanted <= set(ids)


def test_the_visitors_latest_runs_stand_below(client, get, finished):
    page = get()
    assert f"/runs/{finished}/" in page
    assert "Finished" in page


@pytest.mark.parametrize(
    ("query", "is_open", "says"),
    [
        ({}, False, "30 as usual"),
        ({"max_grad_norm": "0.2"}, False, "30 as usual"),
        ({"dataset": "adult", "seed": "7"}, True, None),
        ({"learning_rate": "fast"}, False, "30 as usual"),
        ({"seed": "none"}, True, "1 changed, 29 as usual"),
    ],
)
def test_all_settings_open_for_a_shared_or_wrong_one(get, query, is_open, says):
    page = get(**query)
    assert ("data-all-settings open" in page) == is_open
    if says:
        assert f"data-unusual>{says}<" in page


def test_a_preset_is_no_reason_to_show_all_settings(get):
    for preset in PRESETS:
        query = page_data(get())["presets"][preset.slug]
        assert "data-all-settings open" not in get(**query), preset.slug


def test_presets_show_their_name_and_the_result_of_their_recorded_run(get):
    page = get()
    for preset in PRESETS:
        summary = recorded(preset.slug).summary
        reached = f"{100 * summary['test_accuracy']:.1f} %<"
        at = page.index(f'data-preset="{preset.slug}"')
        tile = page[at : page.index("</a>", at)]
        assert f"<strong>{preset.name}</strong>" in tile
        assert tile.count("<svg") == 1
        assert reached in tile
        assert re.findall(r"ε (?:= )?([\d.]+)", tile) == [
            f"{TrainingConfig.parse(preset.config).target_epsilon:g}"
        ]


ALLOCATED = {"dataset": "adult", "model": "logistic", "expected_batch_size": "8200"}
ALLOCATED |= {"sampling": "random_allocation", "noise_multiplier": "1.5"}


def test_random_allocation_starts_without_canaries_and_says_how_batches_are_drawn(get):
    page = get(**ALLOCATED, steps="4")
    assert 'value="0"' in attributes_of(page, "audit")
    assert page_data(page)["config"]["audit"] == 0
    defaults = page_data(page)["defaults_of"]
    assert defaults["sampling"] == {"random_allocation": {"audit": "0"}}
    assert defaults["noise_bands"]["8"] == {"audit": "0"}
    drawn = re.search('data-plan="batches">(.*?)<', page)[1]
    assert drawn == "each record is in one of the t = 4 batches of an epoch"
    assert "drawn independently with probability q = 0.25" in get(
        **ALLOCATED | {"sampling": "poisson", "expected_batch_size": "8140"}
    )
    assert "drawn independently" not in page


def test_correlated_noise_starts_without_canaries_and_says_how_batches_are_drawn(get):
    page = get(dataset="adult", model="logistic", noise_bands="4")
    assert 'value="0"' in attributes_of(page, "audit")
    drawn = re.search('data-plan="batches">(.*?)<', page)[1]
    assert drawn.startswith("each record is in one of 4 groups, which take turns;")
    assert 'one record, <span data-plan="sampling">cyclic Poisson sampling' in page


def test_a_combination_with_correlated_noise_is_refused_in_the_words_of_the_page(get):
    page = unescape(get(noise_bands="4", noise_schedule="linear"))
    message = re.search(r'id="noise_schedule-error">(.*?)</p>', page)[1]
    assert message.startswith("Noise schedule must be “Constant” with correlated noise")
    page = unescape(get(noise_bands="4", sampling="random_allocation"))
    message = re.search(r'id="noise_bands-error">(.*?)</p>', page)[1]
    assert message.startswith("Noise bands (correlated noise) must be 1 with random")


def test_canaries_with_random_allocation_are_named_as_what_to_correct(get):
    page = unescape(get(**ALLOCATED, audit="2000"))
    assert re.search(r'data-to-correct>To correct: <a href="#audit">', page)
    message = re.search(r'id="audit-error">(.*?)</p>', page)[1]
    assert message == (
        "Canaries must be 0 with random allocation: the scores of canaries assume "
        "Poisson sampling. Choose Poisson sampling, or no canaries."
    )
